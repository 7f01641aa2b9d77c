// Releases: retried for 5 s from the call, until the server's answer is definite.

import { now, pause } from "./clock.js";
import { ClientCapacityError, ClosedError, rejected, ReleaseUnconfirmedError } from "./errors.js";
import { RELEASE_ATTEMPT_MS, RELEASE_COUNT_MAX, RELEASE_WINDOW_MS, RETRY_PAUSE_MS_MAX, RETRY_PAUSE_MS_MIN } from "./limits.js";
import { Once } from "./once.js";
import { Permits } from "./permits.js";
import { ERROR_NO_LEADER, ERROR_NOT_ACTIVE } from "./protocol.js";
import { releaseRequest, type Outcome } from "./request.js";
import type { Connection } from "./connection.js";
import type { Router } from "./router.js";

/** A definite answer: it was released, or that token holds nothing any more. */
export type ReleaseOutcome = "not-held" | "released";

export class Releaser {
  readonly #permits = new Permits(RELEASE_COUNT_MAX);
  readonly #underWay = new Set<Promise<unknown>>();

  #closed = false;

  constructor(readonly router: Router) {}

  /** Releases a grant. Rejects with ClientCapacity, Closed, Rejected or ReleaseUnconfirmed. */
  release(keys: readonly Buffer[], token: bigint): Promise<ReleaseOutcome> {
    if (this.#closed) return Promise.reject(new ClosedError("the broker is closed; the lease ends this lock"));
    return this.#start(keys, token);
  }

  /** Refuses what callers ask for from now on. What nobody wants is still given back. */
  close(): void {
    this.#closed = true;
  }

  #start(keys: readonly Buffer[], token: bigint): Promise<ReleaseOutcome> {
    const permit = this.#permits.take();
    if (permit === undefined) {
      const message = `${RELEASE_COUNT_MAX} releases are under way; the lease ends this lock`;
      return Promise.reject(new ClientCapacityError(message));
    }
    const work = new Release(this.router, keys, token).run();
    this.#underWay.add(work);
    const done = (): void => {
      permit.giveBack();
      this.#underWay.delete(work);
    };
    work.then(done, done);
    return work;
  }

  /** Releases a grant that nobody wants, without a report. */
  releaseInBackground(keys: readonly Buffer[], token: bigint): void {
    this.#start(keys, token).catch(() => undefined);
  }

  /** Resolves when no release is under way any more: within the release window. */
  async drained(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }
}

/** One logical release. An answer to any of its attempts counts. */
class Release {
  readonly #deadline = now() + RELEASE_WINDOW_MS;
  /** Connections that owe an answer to an attempt of this release. */
  readonly #silent = new Set<Connection>();
  #last: Connection | undefined;
  #definite: { outcome: ReleaseOutcome } | { error: Error } | undefined;
  #wake: () => void = () => undefined;

  constructor(
    readonly router: Router,
    readonly keys: readonly Buffer[],
    readonly token: bigint,
  ) {}

  async run(): Promise<ReleaseOutcome> {
    let retryPause = RETRY_PAUSE_MS_MIN;
    while (this.#definite === undefined && now() < this.#deadline) {
      const connection = this.#choose();
      const silent = connection !== undefined && (await this.#attempt(connection)) === "silent";
      if (this.#definite !== undefined) break;
      if (silent) continue;
      await this.#sleep(Math.min(retryPause, this.#deadline - now()));
      retryPause = Math.min(retryPause * 2, RETRY_PAUSE_MS_MAX);
    }
    if (this.#definite === undefined) {
      throw new ReleaseUnconfirmedError(`no definite answer within ${RELEASE_WINDOW_MS} ms; the lease ends the lock`);
    }
    if ("error" in this.#definite) throw this.#definite.error;
    return this.#definite.outcome;
  }

  /** A connection without a silent attempt of this release; when all have one, another than the last. */
  #choose(): Connection | undefined {
    let connection = this.router.choose(this.#silent);
    if (connection !== undefined && this.#last !== undefined && this.#silent.has(connection)) {
      connection = this.router.choose(new Set([this.#last]));
    }
    this.#last = connection;
    return connection;
  }

  /** Sends the release once, and waits until this attempt has ended or its time is over. */
  async #attempt(connection: Connection): Promise<"ended" | "silent"> {
    let state: "ended" | "silent" = "silent";
    this.#silent.add(connection);
    connection.submit(
      releaseRequest(this.keys, this.token, (outcome) => {
        state = "ended";
        this.#silent.delete(connection);
        this.#note(outcome, connection);
        this.#wake();
      }),
    );
    const end = now() + Math.min(RELEASE_ATTEMPT_MS, this.#deadline - now());
    while (state === "silent" && this.#definite === undefined && now() < end) await this.#sleep(end - now());
    return state;
  }

  /** Ends early when some attempt has ended. */
  async #sleep(ms: number): Promise<void> {
    const early = new Once();
    this.#wake = () => early.happen();
    await pause(ms, early);
  }

  /** Takes in how an attempt ended. */
  #note(outcome: Outcome, connection: Connection): void {
    if (outcome.type !== "answered") return;
    const { reply } = outcome;
    switch (reply.op) {
      case "R":
      case "G":
        this.#definite = { outcome: "released" };
        return;
      case "N":
        this.#definite ??= { outcome: "not-held" };
        return;
      case "E":
        if (reply.code === ERROR_NOT_ACTIVE || reply.code === ERROR_NO_LEADER) this.router.leadsNoMore(connection);
        else this.#definite ??= { error: rejected(reply.code) };
    }
  }
}
