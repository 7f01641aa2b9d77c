/*
 * Client for the Ticketing lock server: fair distributed locks with leases and fencing tokens.
 *
 * Every handle is opaque. Functions are thread-safe unless they say otherwise; there is no global state, and no signal
 * is raised. Times are in seconds or milliseconds, as the name says.
 *
 * After fork() a broker and its tickets belong to the parent. In the child every call on them fails at once with
 * TICKETING_ERROR_CLOSED and sends nothing; cancelling and closing do nothing, and freeing leaves the parent's
 * connections and locks as they are. Make the child's own broker in the child.
 */
#ifndef TICKETING_TICKETING_H
#define TICKETING_TICKETING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#error "this release supports POSIX systems"
#elif defined(TICKETING_STATIC)
#define TICKETING_API
#else
#define TICKETING_API __attribute__((visibility("default")))
#endif

/* What is known about the lock after a call. */
typedef enum ticketing_status {
    /* Acquire: held. Release: released. Otherwise: done. */
    TICKETING_OK = 0,
    /* An argument breaks a rule. Nothing was sent. */
    TICKETING_ERROR_INVALID_INPUT = 1,
    /* The client's own limit on pending requests is reached. Nothing was sent. */
    TICKETING_ERROR_CLIENT_CAPACITY = 2,
    /* The caller cancelled. Not held; whatever the server may have granted is being released. */
    TICKETING_ERROR_CANCELLED = 3,
    /* The broker is closed, or was made before a fork, by the parent. Nothing was sent. */
    TICKETING_ERROR_CLOSED = 4,
    /* The turn did not come within the wait. Not held, and this request can never be granted. */
    TICKETING_ERROR_TIMEOUT = 5,
    /* Not held: the server is at capacity (keys, waiters or requests in flight). */
    TICKETING_ERROR_BUSY = 6,
    /* Not held: no server was reachable within the wait. */
    TICKETING_ERROR_NOT_CONNECTED = 7,
    /* Not held: the server refused the token. */
    TICKETING_ERROR_UNAUTHORIZED = 8,
    /* Not held: up to the end of the wait the cluster had no leader that serves, or a restarted single server still
     * waited for the leases of its predecessor to end. */
    TICKETING_ERROR_NO_LEADER = 9,
    /* The server refused the request's values; nothing was done. See ticketing_rejection_code. */
    TICKETING_ERROR_REJECTED = 10,
    /* Granted, but with less lease left than the work budget. It is being released. */
    TICKETING_ERROR_INSUFFICIENT_LEASE = 11,
    /* Unknown: the request may have been taken. Do not enter the critical section; at worst the lease ends it. */
    TICKETING_ERROR_INDETERMINATE = 12,
    /* Release only: no definite answer within 5 s. The lease ends the lock. */
    TICKETING_ERROR_RELEASE_UNCONFIRMED = 13,
    /* No memory, thread or descriptor is left. Nothing was sent. */
    TICKETING_ERROR_RESOURCES = 14,
    /* Release only: a definite answer. That token holds nothing any more: it was released already, or its
     * lease is over. */
    TICKETING_NOT_HELD = 15,
    /* A rejection carries the protocol's error code above these bits: compare ticketing_kind(status). */
    TICKETING_STATUS_MASK = 255,
    TICKETING_STATUS_LARGEST = 65535
} ticketing_status;

/* The status without the rejection code. */
TICKETING_API ticketing_status ticketing_kind(ticketing_status status);
/* The protocol's error code (1-7) of a TICKETING_ERROR_REJECTED, else 0. */
TICKETING_API int ticketing_rejection_code(ticketing_status status);
/* The name that all official clients share, for example "Timeout". Static. */
TICKETING_API const char *ticketing_status_name(ticketing_status status);
/* One sentence on what is known. Static. */
TICKETING_API const char *ticketing_strerror(ticketing_status status);

/* ---- Options. Used by one thread; copied by the broker. ---------------------------------------------------- */

typedef struct ticketing_options ticketing_options;

/* NULL when no memory is left. */
TICKETING_API ticketing_options *ticketing_options_new(void);
TICKETING_API void ticketing_options_free(ticketing_options *options);
/* host:port, IPv6 as [addr]:port. One server, or 3 or 5 nodes of a cluster in slot order. */
TICKETING_API ticketing_status ticketing_options_add_address(ticketing_options *options, const char *address);
/* The cluster's identity: 64 hexadecimal digits. Selects cluster mode. */
TICKETING_API ticketing_status ticketing_options_set_fingerprint(ticketing_options *options, const char *fingerprint);
/* Client token, 16-4096 bytes. Without one every address must be a loopback address. */
TICKETING_API ticketing_status ticketing_options_set_token(ticketing_options *options, const void *token, size_t size);
/* TLS 1.2 or newer, trusting the system's certificate authorities. Certificates and names are verified. */
TICKETING_API ticketing_status ticketing_options_set_tls_system_roots(ticketing_options *options);
/* TLS, trusting the authorities of a PEM file and no others. */
TICKETING_API ticketing_status ticketing_options_set_tls_ca_file(ticketing_options *options, const char *path);
/* TLS without any verification: no protection against an attacker on the network. For tests only. */
TICKETING_API ticketing_status ticketing_options_set_tls_insecure(ticketing_options *options);
/* The name that the certificate must carry, instead of the host of the address. A broker is refused it without TLS. */
TICKETING_API ticketing_status ticketing_options_set_server_name(ticketing_options *options, const char *name);
/* Most acquires between call and answer, over the whole broker: 1-16384; 1024. */
TICKETING_API ticketing_status ticketing_options_set_pending_max(ticketing_options *options, unsigned count);
/* Why the last call on these options, or ticketing_broker_new with them, failed. Valid until the next call. */
TICKETING_API const char *ticketing_options_error(const ticketing_options *options);

/* ---- Broker ------------------------------------------------------------------------------------------------ */

typedef struct ticketing_broker ticketing_broker;

/*
 * Makes a broker whose own thread connects, serves and reconnects for ever; a dead server never breaks it. Share one
 * in the whole process. *broker is set only when the result is TICKETING_OK.
 */
TICKETING_API ticketing_status ticketing_broker_new(ticketing_options *options, ticketing_broker **broker);
/*
 * Makes a broker without a thread: its work is done, and its callbacks run, inside ticketing_broker_process, which the
 * caller's event loop calls. Blocking calls must not be used with it. Use numeric addresses: names are looked up there.
 */
TICKETING_API ticketing_status ticketing_broker_new_polled(ticketing_options *options, ticketing_broker **broker);
/*
 * Waits until a connection is usable. Acquires need no such call: they wait for a connection themselves.
 * NOT_CONNECTED or UNAUTHORIZED when none is after the time.
 */
TICKETING_API ticketing_status ticketing_broker_wait_ready(ticketing_broker *broker, unsigned timeout_ms);
/*
 * Why the latest session with a server ended, and which server's, for logs: the reason for a NOT_CONNECTED. Writes at
 * most `size` bytes, the closing zero included.
 */
TICKETING_API void ticketing_broker_failure(ticketing_broker *broker, char *text, size_t size);
/*
 * Refuses new calls, lets releases under way finish for at most 5 s, and returns when thread and sockets are gone (a
 * polled broker: goes on inside ticketing_broker_process). Locks still held end with their lease. Idempotent.
 */
TICKETING_API void ticketing_broker_close(ticketing_broker *broker);
/* Closes it if need be (a polled broker: at once) and gives the handle back. Tickets may outlive it. NULL is allowed.
 */
TICKETING_API void ticketing_broker_free(ticketing_broker *broker);

/* ---- Event loop of a polled broker. Call these from one thread. --------------------------------------------- */

/* Most descriptors a broker waits for. */
#define TICKETING_POLL_COUNT_MAX 6

typedef struct ticketing_poll {
    int fd;
    /* 1: when readable, 2: when writable, 3: both. */
    int events;
} ticketing_poll;

/* Fills in what to wait for and returns how many; `polls` has room for TICKETING_POLL_COUNT_MAX. */
TICKETING_API size_t ticketing_broker_polls(ticketing_broker *broker, ticketing_poll *polls);
/* After how many milliseconds to process at the latest, -1 for never. */
TICKETING_API int ticketing_broker_timeout_ms(ticketing_broker *broker);
/* Does what can be done without blocking, and runs callbacks. Returns 0 when a closed broker has nothing more to do. */
TICKETING_API int ticketing_broker_process(ticketing_broker *broker);

/* ---- Acquire ----------------------------------------------------------------------------------------------- */

typedef struct ticketing_ticket ticketing_ticket;

typedef struct ticketing_acquire_options {
    /* Longest time to queue: 0-255,000 ms; fractions of a second are rounded up; 0 is one immediate try. */
    uint32_t wait_ms;
    /* Lease: 1-250 s. */
    uint32_t lease_seconds;
    /* Least time that must be left of the lease when the grant arrives; less than the lease. */
    uint32_t budget_ms;
} ticketing_acquire_options;

typedef struct ticketing_key {
    /* UTF-8, 1-128 bytes without space, LF and CR. */
    const void *bytes;
    size_t size;
} ticketing_key;

/* Acquires one key (zero-terminated) and waits for it. *ticket is set only when the result is TICKETING_OK. */
TICKETING_API ticketing_status ticketing_acquire(ticketing_broker *broker, const char *key,
                                                 const ticketing_acquire_options *options, ticketing_ticket **ticket);
/* Acquires up to 16 keys, all or nothing, under one token. Order and duplicates do not matter. */
TICKETING_API ticketing_status ticketing_acquire_set(ticketing_broker *broker, const ticketing_key *keys, size_t count,
                                                     const ticketing_acquire_options *options,
                                                     ticketing_ticket **ticket);

/* Which rule these arguments of an acquire break, in words; NULL when none: the reason for an INVALID_INPUT. Static. */
TICKETING_API const char *ticketing_acquire_problem(const ticketing_key *keys, size_t count,
                                                    const ticketing_acquire_options *options);

typedef struct ticketing_operation ticketing_operation;
/*
 * Told once how an acquire ended, on the broker's thread (a polled broker: inside process). It must not block. The
 * ticket is the callee's to free; NULL unless the status is TICKETING_OK.
 */
typedef void (*ticketing_acquired)(void *context, ticketing_status status, ticketing_ticket *ticket);
/*
 * Begins to acquire one key or a set. When the result is not TICKETING_OK the callback is not called. `operation` may
 * be NULL; otherwise it is for ticketing_operation_cancel and must be freed, before or after the end.
 */
TICKETING_API ticketing_status ticketing_acquire_start(ticketing_broker *broker, const ticketing_key *keys,
                                                       size_t count, const ticketing_acquire_options *options,
                                                       ticketing_acquired callback, void *context,
                                                       ticketing_operation **operation);
/* Gives up: the callback hears TICKETING_ERROR_CANCELLED, and a late grant is released. No effect after the end. */
TICKETING_API void ticketing_operation_cancel(ticketing_operation *operation);
TICKETING_API void ticketing_operation_free(ticketing_operation *operation);

/* ---- Ticket ------------------------------------------------------------------------------------------------ */

/*
 * The fencing token: strictly larger than every token granted before it in the same domain. Give it to the protected
 * resource, which must refuse any token below the highest it has seen.
 */
TICKETING_API uint64_t ticketing_ticket_token(const ticketing_ticket *ticket);
/* The fencing domain: "single", or the cluster's fingerprint. Tokens of two domains must never be compared. */
TICKETING_API const char *ticketing_ticket_domain(const ticketing_ticket *ticket);
/* Milliseconds for which the lock may still be relied on: send time + lease - now, 0 when that has passed. */
TICKETING_API uint32_t ticketing_ticket_remaining_ms(const ticketing_ticket *ticket);
TICKETING_API size_t ticketing_ticket_key_count(const ticketing_ticket *ticket);
/* The keys, ascending bytewise. Valid as long as the ticket. */
TICKETING_API ticketing_key ticketing_ticket_key(const ticketing_ticket *ticket, size_t index);
/*
 * Releases the lock and waits for the server's definite answer, at most 5 s: OK or NOT_HELD, else RELEASE_UNCONFIRMED,
 * CLIENT_CAPACITY, CLOSED or REJECTED, and then the lease ends the lock. A second call gives NOT_HELD at once. The
 * ticket must still be freed.
 */
TICKETING_API ticketing_status ticketing_release(ticketing_ticket *ticket);
/* Told once how a release ended, on the broker's thread. It must not block. */
typedef void (*ticketing_released)(void *context, ticketing_status status);
/* Begins to release. When the result is not TICKETING_OK the callback is not called. The ticket must still be freed. */
TICKETING_API ticketing_status ticketing_release_start(ticketing_ticket *ticket, ticketing_released callback,
                                                       void *context);
/* Gives the handle back. A lock that was not released is released in the background. NULL is allowed. */
TICKETING_API void ticketing_ticket_free(ticketing_ticket *ticket);

#ifdef __cplusplus
}
#endif

#endif
