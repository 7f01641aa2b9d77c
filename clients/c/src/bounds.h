/* Every bound of the client, with its unit. The protocol's own are in the handbook's "Client protocol". */
#ifndef TICKETING_BOUNDS_H
#define TICKETING_BOUNDS_H

#define KEY_SIZE_MAX 128
#define SET_KEY_COUNT_MAX 16
#define WAIT_MS_MAX 255000u
#define LEASE_SECONDS_MIN 1u
#define LEASE_SECONDS_MAX 250u
#define TOKEN_SIZE_MIN 16
#define TOKEN_SIZE_MAX 4096
#define SLOT_COUNT_MAX 5

/* Acquires between call and answer, over the whole broker. */
#define PENDING_COUNT_DEFAULT 1024
#define PENDING_COUNT_MAX 16384
/* Releases between call and answer. */
#define RELEASE_COUNT_MAX 1024
/* Attempts of one release that may be without an answer at once: at 0, 2 and 4 s, and one to spare. */
#define RELEASE_ATTEMPT_COUNT_MAX 4

/* Connections to the one address of single mode, so that one broken socket does not interrupt service. */
#define SINGLE_CONNECTION_COUNT 2
/* Bytes of requests waiting for the socket, from which on further ones stay in the queue. */
#define WRITE_BUFFER_SIZE 65536
/* Bytes asked of the socket at once. */
#define READ_SIZE 16384

#define MS(count) ((int64_t)(count)*1000000)
#define CONNECT_TIME MS(5000)
/* TLS and challenge-response together. */
#define HANDSHAKE_TIME MS(10000)
#define BACKOFF_MIN MS(100)
#define BACKOFF_MAX MS(3200)
/* A session at least this long lets the back-off begin anew. */
#define LONG_SESSION MS(1000)
/* How long a sent acquire may stay unanswered beyond its wait. */
#define ANSWER_GRACE MS(5000)
/* How long an immediate try may look for a server that takes it. */
#define IMMEDIATE_TIME MS(5000)
/* How long a release is retried, from the call. */
#define RELEASE_WINDOW MS(5000)
/* How long one attempt of a release may stay unanswered before another is sent. */
#define RELEASE_ATTEMPT_TIME MS(2000)
#define RETRY_PAUSE_MIN MS(10)
#define RETRY_PAUSE_MAX MS(100)

#endif
