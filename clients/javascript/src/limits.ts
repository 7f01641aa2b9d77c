// Every bound of the client, with its unit. The protocol's own are in the handbook's "Client protocol".

/** Longest key, in bytes of UTF-8. */
export const KEY_SIZE_BYTES_MAX = 128;
/** Fewest keys of a set. */
export const SET_KEY_COUNT_MIN = 2;
/** Most keys of a set. */
export const SET_KEY_COUNT_MAX = 16;
/** Longest wait; 0 is one immediate try. */
export const WAIT_SECONDS_MAX = 255;
export const LEASE_SECONDS_MIN = 1;
export const LEASE_SECONDS_MAX = 250;
export const TOKEN_SIZE_BYTES_MIN = 16;
export const TOKEN_SIZE_BYTES_MAX = 4096;

/** Acquires between call and answer, over the whole broker. */
export const PENDING_COUNT_DEFAULT = 1024;
export const PENDING_COUNT_MAX = 16_384;
/** Releases between call and answer. */
export const RELEASE_COUNT_MAX = 1024;

export const CONNECT_MS = 5_000;
/** TLS and challenge-response together. */
export const HANDSHAKE_MS = 10_000;
export const BACKOFF_MS_MIN = 100;
export const BACKOFF_MS_MAX = 3_200;
/** A session at least this long lets the back-off begin anew. */
export const LONG_SESSION_MS = 1_000;
/** How long a sent acquire may stay unanswered beyond its wait. */
export const ANSWER_GRACE_MS = 5_000;
/** How long an immediate try may look for a server that takes it. */
export const IMMEDIATE_MS = 5_000;
/** How long a release is retried, from the call. */
export const RELEASE_WINDOW_MS = 5_000;
/** How long one attempt of a release may stay unanswered before another is sent. */
export const RELEASE_ATTEMPT_MS = 2_000;
export const RETRY_PAUSE_MS_MIN = 10;
export const RETRY_PAUSE_MS_MAX = 100;
/** Idle time before the first TCP keepalive probe. */
export const KEEPALIVE_MS = 10_000;
/** Bytes handed to the socket and not yet sent, from which on requests wait in the queue. */
export const WRITE_BUFFER_SIZE_BYTES = 65_536;
