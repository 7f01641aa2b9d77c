package ticketing;

/** Name of an error; the same in every official client. */
public enum ErrorCode {
    /** Not held: the server refused for capacity (too many keys, waiters or requests in flight). */
    BUSY("Busy"),
    /** Not held; whatever the server may have granted is being released. */
    CANCELLED("Cancelled"),
    /** The client's own limit is reached. Nothing was sent. */
    CLIENT_CAPACITY("ClientCapacity"),
    /** The broker is closed. Nothing was sent. */
    CLOSED("Closed"),
    /** Unknown: the request may have been taken. Do not enter the critical section. */
    INDETERMINATE("Indeterminate"),
    /** Granted, but with less lease left than the work budget. It is being released. */
    INSUFFICIENT_LEASE("InsufficientLease"),
    /** An argument breaks a rule. Nothing was sent. */
    INVALID_INPUT("InvalidInput"),
    /**
     * Not held: up to the end of the wait the cluster had no leader that serves, or a restarted single server still
     * waited for the leases of its predecessor to end.
     */
    NO_LEADER("NoLeader"),
    /** Not held: no server was reachable within the wait. */
    NOT_CONNECTED("NotConnected"),
    /** The server refused the request's values; nothing was done. */
    REJECTED("Rejected"),
    /** Release only: no definite answer within 5 s. The lease ends the lock. */
    RELEASE_UNCONFIRMED("ReleaseUnconfirmed"),
    /** The turn did not come within the wait. Not held, and this request can never be granted. */
    TIMEOUT("Timeout"),
    /** Not held: the server refused the token. */
    UNAUTHORIZED("Unauthorized");

    private final String wireName;

    ErrorCode(String wireName) {
        this.wireName = wireName;
    }

    /**
     * The name that all official clients share.
     *
     * @return the name, for example {@code "Timeout"}
     */
    @Override
    public String toString() {
        return wireName;
    }
}
