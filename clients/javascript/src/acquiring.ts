// One logical acquire: retried only while the server provably did not take it.

import { now, pause } from "./clock.js";
import type { Connection } from "./connection.js";
import {
  BusyError,
  CancelledError,
  ClosedError,
  IndeterminateError,
  InsufficientLeaseError,
  NoLeaderError,
  NotConnectedError,
  rejected,
  TimeoutError,
  UnauthorizedError,
} from "./errors.js";
import { ANSWER_GRACE_MS, IMMEDIATE_MS, RETRY_PAUSE_MS_MAX, RETRY_PAUSE_MS_MIN } from "./limits.js";
import { Once } from "./once.js";
import type { AcquireTimes } from "./options.js";
import type { Permit } from "./permits.js";
import { ERROR_NO_LEADER, ERROR_NOT_ACTIVE } from "./protocol.js";
import type { Releaser } from "./releasing.js";
import { acquireRequest, type Answer, type Outcome, type Request } from "./request.js";
import type { Router } from "./router.js";

/** What the server granted, and until when it may be relied on. */
export interface Grant {
  readonly token: bigint;
  readonly validBefore: number;
}

/** Whom an acquire works with. */
export interface AcquireContext {
  readonly router: Router;
  readonly releaser: Releaser;
  /** When the broker closes. */
  readonly closing: Once;
  /** Given back when nothing of this acquire is outstanding any more. */
  readonly permit: Permit;
  readonly keys: readonly Buffer[];
  readonly times: AcquireTimes;
  readonly signal: AbortSignal | undefined;
}

/** An attempt without effect: no byte of it left, or the server answered that it does not lead. */
type NotTaken = "not taken" | "unsent";

/** Why an attempt was given up from this side. */
type GivenUp = "cancelled" | "closed" | "grace over" | "wait over";

export class Acquire {
  readonly #context: AcquireContext;
  readonly #deadline: number;
  /** When the caller gives up or the broker closes. */
  readonly #interrupt = new Once();
  #everUsable = false;
  #leaderless = false;
  #outstanding = false;

  constructor(context: AcquireContext) {
    this.#context = context;
    const { waitSeconds } = context.times;
    this.#deadline = now() + (waitSeconds === 0 ? IMMEDIATE_MS : waitSeconds * 1000);
  }

  async run(): Promise<Grant> {
    const { closing, signal, permit } = this.#context;
    const interrupt = (): void => this.#interrupt.happen();
    closing.watch(interrupt);
    signal?.addEventListener("abort", interrupt);
    try {
      return await this.#loop();
    } finally {
      closing.unwatch(interrupt);
      signal?.removeEventListener("abort", interrupt);
      if (!this.#outstanding) permit.giveBack();
    }
  }

  async #loop(): Promise<Grant> {
    let retryPause = RETRY_PAUSE_MS_MIN;
    for (;;) {
      this.#throwIfInterrupted();
      const left = this.#deadline - now();
      if (left <= 0) throw this.#exhausted();
      const connection = this.#context.router.choose();
      if (connection !== undefined) {
        this.#everUsable = true;
        const grant = await this.#attempt(connection);
        if (grant === "unsent") continue;
        if (grant !== "not taken") return grant;
      }
      await pause(Math.min(retryPause, left), this.#interrupt);
      retryPause = Math.min(retryPause * 2, RETRY_PAUSE_MS_MAX);
    }
  }

  /** Sends the acquire once. Other than a grant: the server provably did not take it. */
  async #attempt(connection: Connection): Promise<Grant | NotTaken> {
    let waitSent = 0;
    const waitSeconds = (time: number): number => (waitSent = this.#remainingWaitSeconds(time));
    let settle: (outcome: Outcome) => void = () => undefined;
    const ended = new Promise<Outcome>((resolve) => (settle = resolve));
    const { keys, times } = this.#context;
    const request = acquireRequest(keys, times.leaseSeconds, waitSeconds, settle);
    connection.submit(request);
    const result = await this.#whicheverComesFirst(ended, request, () => waitSent);
    if (typeof result === "string") return this.#giveUp(result, request, connection);
    switch (result.type) {
      case "unsent":
        return "unsent";
      case "lost":
        throw new IndeterminateError("the connection ended before the acquire was answered; do not enter the critical section");
      case "answered":
        return this.#answered(result.reply, request, connection);
    }
  }

  /** The end of the request, or the reason to wait for it no longer. */
  #whicheverComesFirst(ended: Promise<Outcome>, request: Request, waitSent: () => number): Promise<GivenUp | Outcome> {
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      const finish = (result: GivenUp | Outcome): void => {
        clearTimeout(timer);
        this.#interrupt.unwatch(onInterrupt);
        resolve(result);
      };
      const onInterrupt = (): void => finish(this.#context.closing.happened ? "closed" : "cancelled");
      const check = (): void => {
        const time = now();
        const end = request.state === "queued" ? this.#deadline : request.sentAt + waitSent() * 1000 + ANSWER_GRACE_MS;
        if (time < end) timer = setTimeout(check, Math.ceil(end - time));
        else finish(request.state === "queued" ? "wait over" : "grace over");
      };
      timer = setTimeout(check, Math.max(0, Math.ceil(this.#deadline - now())));
      this.#interrupt.watch(onInterrupt);
      void ended.then(finish);
      if (this.#interrupt.happened) onInterrupt();
    });
  }

  /** The caller is told now; a request that may have been sent stays behind and releases a late grant. */
  #giveUp(reason: GivenUp, request: Request, connection: Connection): "unsent" {
    const maybeSent = request.state === "sent";
    if (maybeSent) this.#leaveTombstone(request);
    else request.settle({ type: "unsent" });
    switch (reason) {
      case "wait over":
        return "unsent";
      case "cancelled":
        throw this.#cancelled();
      case "closed":
        if (!maybeSent) throw new ClosedError("the broker was closed");
        throw new IndeterminateError("the broker was closed before the acquire was answered");
      case "grace over":
        if (connection.receivedAt <= request.sentAt) connection.abort();
        throw new IndeterminateError(
          `no answer within the wait and ${ANSWER_GRACE_MS} ms more; do not enter the critical section`,
        );
    }
  }

  #leaveTombstone(request: Request): void {
    this.#outstanding = true;
    const { keys, permit, releaser } = this.#context;
    request.handOver((outcome) => {
      permit.giveBack();
      if (outcome.type !== "answered") return;
      const { reply } = outcome;
      if (reply.op === "A" || reply.op === "S") releaser.releaseInBackground(keys, reply.token);
    });
  }

  #answered(reply: Answer, request: Request, connection: Connection): Grant | "not taken" {
    switch (reply.op) {
      case "A":
      case "S":
        return this.#granted(reply.token, request.sentAt);
      case "T":
        throw new TimeoutError();
      case "B":
        throw new BusyError();
      case "I":
        throw new IndeterminateError("the leader changed while the acquire was in progress; do not enter the critical section");
      case "M":
        this.#leaderless = true;
        return "not taken";
      case "E":
        if (reply.code !== ERROR_NOT_ACTIVE && reply.code !== ERROR_NO_LEADER) throw rejected(reply.code);
        this.#leaderless = true;
        this.#context.router.leadsNoMore(connection);
        return "not taken";
      default:
        throw new Error(`reply ${reply.op} passed the check against the request's kind`);
    }
  }

  #granted(token: bigint, sentAt: number): Grant {
    const { keys, releaser, times, signal } = this.#context;
    const validBefore = sentAt + times.leaseSeconds * 1000;
    if (signal?.aborted === true) {
      releaser.releaseInBackground(keys, token);
      throw this.#cancelled();
    }
    const left = validBefore - now();
    if (left <= 0 || left < times.budgetMs) {
      releaser.releaseInBackground(keys, token);
      throw new InsufficientLeaseError(`granted with ${Math.max(0, Math.floor(left))} ms of lease left; it is being released`);
    }
    return { token, validBefore };
  }

  /** Rounded up, so that a wait of 1 never becomes the immediate try 0. */
  #remainingWaitSeconds(time: number): number {
    if (this.#context.times.waitSeconds === 0) return 0;
    return Math.max(1, Math.ceil((this.#deadline - time) / 1000));
  }

  #throwIfInterrupted(): void {
    if (this.#context.closing.happened) throw new ClosedError("the broker is closed");
    if (this.#context.signal?.aborted === true) throw this.#cancelled();
  }

  #cancelled(): CancelledError {
    return new CancelledError("the acquire was cancelled", { cause: this.#context.signal?.reason as unknown });
  }

  /** The error when the wait is over and nothing is outstanding. */
  #exhausted(): Error {
    if (this.#leaderless) return new NoLeaderError();
    if (this.#everUsable) return new TimeoutError();
    if (this.#context.router.refused) return new UnauthorizedError();
    return new NotConnectedError(`no server was reachable within the wait: ${this.#context.router.lastFailure}`);
  }
}
