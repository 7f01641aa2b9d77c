// What can go wrong, named by what is known about the lock.

/** Name of an error; the same in every official client. */
export type TicketingErrorCode =
  | "Busy"
  | "Cancelled"
  | "ClientCapacity"
  | "Closed"
  | "Indeterminate"
  | "InsufficientLease"
  | "InvalidInput"
  | "NoLeader"
  | "NotConnected"
  | "Rejected"
  | "ReleaseUnconfirmed"
  | "Timeout"
  | "Unauthorized";

/** Base of every error this package throws. Branch on `code` or on the class, never on the message. */
export abstract class TicketingError extends Error {
  abstract readonly code: TicketingErrorCode;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An argument breaks a rule. Nothing was sent. */
export class InvalidInputError extends TicketingError {
  readonly code = "InvalidInput";
}

/** The client's own limit on pending requests is reached. Nothing was sent. */
export class ClientCapacityError extends TicketingError {
  readonly code = "ClientCapacity";
}

/** The caller aborted. Not held; whatever the server may have granted is being released. `cause` is the signal's reason. */
export class CancelledError extends TicketingError {
  readonly code = "Cancelled";
}

/** The broker is closed. Nothing was sent. */
export class ClosedError extends TicketingError {
  readonly code = "Closed";
}

/** The turn did not come within the wait. Not held, and this request can never be granted. */
export class TimeoutError extends TicketingError {
  readonly code = "Timeout";

  constructor() {
    super("the turn did not come within the wait; wait longer or try again");
  }
}

/** Not held: the server refused for capacity (too many keys, waiters or requests in flight). */
export class BusyError extends TicketingError {
  readonly code = "Busy";

  constructor() {
    super("the server is at capacity; try again later or raise its limits");
  }
}

/** Not held: no server was reachable within the wait. */
export class NotConnectedError extends TicketingError {
  readonly code = "NotConnected";
}

/** Not held: the server refused the token. */
export class UnauthorizedError extends TicketingError {
  readonly code = "Unauthorized";

  constructor() {
    super("the server refused the token, or its cluster has another fingerprint; give the client those that the server accepts");
  }
}

/**
 * Not held: up to the end of the wait the cluster had no leader that serves, or a restarted single server still waited
 * for the leases of its predecessor to end.
 */
export class NoLeaderError extends TicketingError {
  readonly code = "NoLeader";

  constructor() {
    super(
      "no server grants now: a restarted single server waits until its predecessor's leases are over, " +
        "a cluster needs a majority of its nodes; wait longer or try again",
    );
  }
}

/** The server refused the request's values; nothing was done. */
export class RejectedError extends TicketingError {
  readonly code = "Rejected";

  constructor(
    message: string,
    /** The protocol's error code, 1–7. */
    readonly rejectionCode: number,
  ) {
    super(message);
  }
}

/** Granted, but with less lease left than the work budget. It is being released. */
export class InsufficientLeaseError extends TicketingError {
  readonly code = "InsufficientLease";
}

/** Unknown: the request may have been taken. Do not enter the critical section; at worst the lease ends the lock. */
export class IndeterminateError extends TicketingError {
  readonly code = "Indeterminate";
}

/** Release only: no definite answer within 5 s. The lease ends the lock. */
export class ReleaseUnconfirmedError extends TicketingError {
  readonly code = "ReleaseUnconfirmed";
}

const REJECTION_NAMES: Readonly<Record<number, string>> = {
  1: "BadKey: a key breaks the key rule",
  2: "BadLease: lease 0 or above 250 s",
  3: "NotActive: the node does not take part",
  4: "NoLeader: no leader known, or no majority",
  5: "BadKeySet: 2-16 keys, strictly ascending",
  6: "GroupMismatch: the token was granted for another set of keys",
  7: "BadToken: token 0",
};

/** The error for an `E` reply that no retry can help. */
export function rejected(rejectionCode: number): RejectedError {
  const name = REJECTION_NAMES[rejectionCode] ?? `code ${rejectionCode}`;
  return new RejectedError(`the server refused the request: ${name}`, rejectionCode);
}
