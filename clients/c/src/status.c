#include "ticketing/ticketing.h"

#include <stddef.h>

static const struct {
    const char *name;
    const char *text;
} STATUSES[] = {
    [TICKETING_OK] = {"Ok", "done"},
    [TICKETING_ERROR_INVALID_INPUT] = {"InvalidInput", "an argument breaks a rule; nothing was sent"},
    [TICKETING_ERROR_CLIENT_CAPACITY] = {"ClientCapacity", "too many requests are pending here; nothing was sent"},
    [TICKETING_ERROR_CANCELLED] = {"Cancelled", "cancelled; not held, a late grant is being released"},
    [TICKETING_ERROR_CLOSED] = {"Closed",
                                "the broker is closed, or was made before a fork, by the parent; nothing was sent"},
    [TICKETING_ERROR_TIMEOUT] = {"Timeout", "the turn did not come within the wait; wait longer or try again"},
    [TICKETING_ERROR_BUSY] = {"Busy", "the server is at capacity; try again later or raise its limits"},
    [TICKETING_ERROR_NOT_CONNECTED] = {"NotConnected", "no server was reachable; not held"},
    [TICKETING_ERROR_UNAUTHORIZED] = {"Unauthorized", "the server refused the token, or its cluster has another "
                                                      "fingerprint; give the client those that the server accepts"},
    [TICKETING_ERROR_NO_LEADER] =
        {"NoLeader", "no server grants now: a restarted single server waits until its predecessor's leases are over, "
                     "a cluster needs a majority of its nodes; wait longer or try again"},
    [TICKETING_ERROR_REJECTED] = {"Rejected", "the server refused the request's values; nothing was done"},
    [TICKETING_ERROR_INSUFFICIENT_LEASE] = {"InsufficientLease", "granted too late; it is being released"},
    [TICKETING_ERROR_INDETERMINATE] = {"Indeterminate",
                                       "unknown whether it is held; do not enter the critical section"},
    [TICKETING_ERROR_RELEASE_UNCONFIRMED] = {"ReleaseUnconfirmed",
                                             "no definite answer in time; the lease ends the lock"},
    [TICKETING_ERROR_RESOURCES] = {"Resources", "no memory, thread or descriptor is left; nothing was sent"},
    [TICKETING_NOT_HELD] = {"NotHeld",
                            "that token holds nothing any more: it was released already, or its lease is over"},
};

ticketing_status ticketing_kind(ticketing_status status) {
    return (ticketing_status)((unsigned)status & TICKETING_STATUS_MASK);
}

int ticketing_rejection_code(ticketing_status status) { return (int)((unsigned)status >> 8); }

const char *ticketing_status_name(ticketing_status status) {
    size_t kind = ticketing_kind(status);
    return kind < sizeof STATUSES / sizeof *STATUSES ? STATUSES[kind].name : "Unknown";
}

const char *ticketing_strerror(ticketing_status status) {
    size_t kind = ticketing_kind(status);
    return kind < sizeof STATUSES / sizeof *STATUSES ? STATUSES[kind].text : "unknown status";
}
