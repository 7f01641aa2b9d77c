// Client for the Ticketing lock server.

export { Broker } from "./broker.js";
export {
  BusyError,
  CancelledError,
  ClientCapacityError,
  ClosedError,
  IndeterminateError,
  InsufficientLeaseError,
  InvalidInputError,
  NoLeaderError,
  NotConnectedError,
  RejectedError,
  ReleaseUnconfirmedError,
  TicketingError,
  TimeoutError,
  UnauthorizedError,
  type TicketingErrorCode,
} from "./errors.js";
export type { Key } from "./keys.js";
export type { AcquireOptions, BrokerOptions, TlsOptions } from "./options.js";
export type { ReleaseOutcome } from "./releasing.js";
export { Ticket, type TicketDomain } from "./ticket.js";
