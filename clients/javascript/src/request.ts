// The life of one request on one connection: queued → sent → done.

import { encodeAcquire, encodeRelease, type Reply, type RequestKind } from "./protocol.js";

export type Answer = Exclude<Reply, { op: "L" }>;

/** How a request ended on its connection. */
export type Outcome =
  /** The server answered. */
  | { readonly type: "answered"; readonly reply: Answer }
  /** No byte of it was handed to the socket: the server provably did not take it. */
  | { readonly type: "unsent" }
  /** It may have been taken, and no answer will come. */
  | { readonly type: "lost" };

/** A request that a connection carries. "sent" begins before its first byte is handed to the socket. */
export class Request {
  state: "done" | "queued" | "sent" = "queued";
  /** When its sending began, on the monotonic clock. */
  sentAt = 0;
  #listener: (outcome: Outcome) => void;

  constructor(
    readonly kind: RequestKind,
    /** The frame, made at the moment of sending. */
    readonly frame: (requestId: bigint, now: number) => Buffer,
    listener: (outcome: Outcome) => void,
  ) {
    this.#listener = listener;
  }

  /** Ends the request; what comes later is ignored. */
  settle(outcome: Outcome): void {
    if (this.state === "done") return;
    this.state = "done";
    this.#listener(outcome);
  }

  /** Lets somebody else hear how it ends: the caller has gone. */
  handOver(listener: (outcome: Outcome) => void): void {
    this.#listener = listener;
  }
}

/** `A` or `S`; `waitSeconds` is asked at the moment of sending. */
export function acquireRequest(
  keys: readonly Buffer[],
  leaseSeconds: number,
  waitSeconds: (now: number) => number,
  listener: (outcome: Outcome) => void,
): Request {
  const frame = (requestId: bigint, now: number): Buffer => encodeAcquire(requestId, waitSeconds(now), leaseSeconds, keys);
  return new Request(keys.length === 1 ? "A" : "S", frame, listener);
}

/** `R` or `G`. */
export function releaseRequest(keys: readonly Buffer[], token: bigint, listener: (outcome: Outcome) => void): Request {
  const frame = (requestId: bigint): Buffer => encodeRelease(requestId, token, keys);
  return new Request(keys.length === 1 ? "R" : "G", frame, listener);
}
