package ticketing;

/**
 * Base of every error this library throws. Branch on the class or on {@link #code()}, never on the message; each tells
 * what is known about the lock.
 */
public abstract sealed class TicketingException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final ErrorCode code;

    private TicketingException(ErrorCode code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /**
     * The error's name.
     *
     * @return the name that all official clients share
     */
    public ErrorCode code() {
        return code;
    }

    /** Not held: the server refused for capacity (too many keys, waiters or requests in flight). */
    public static final class Busy extends TicketingException {
        private static final long serialVersionUID = 1L;

        Busy() {
            super(ErrorCode.BUSY, "the server is at capacity; try again later or raise its limits", null);
        }
    }

    /** The caller gave up. Not held; whatever the server may have granted is being released. */
    public static final class Cancelled extends TicketingException {
        private static final long serialVersionUID = 1L;

        Cancelled(String message) {
            super(ErrorCode.CANCELLED, message, null);
        }

        Cancelled(String message, Throwable cause) {
            super(ErrorCode.CANCELLED, message, cause);
        }
    }

    /** The client's own limit on pending requests is reached. Nothing was sent. */
    public static final class ClientCapacity extends TicketingException {
        private static final long serialVersionUID = 1L;

        ClientCapacity(String message) {
            super(ErrorCode.CLIENT_CAPACITY, message, null);
        }
    }

    /** The broker is closed. Nothing was sent. */
    public static final class Closed extends TicketingException {
        private static final long serialVersionUID = 1L;

        Closed(String message) {
            super(ErrorCode.CLOSED, message, null);
        }
    }

    /**
     * Unknown: the request may have been taken. Do not enter the critical section; at worst the lease ends the lock.
     */
    public static final class Indeterminate extends TicketingException {
        private static final long serialVersionUID = 1L;

        Indeterminate(String message) {
            super(ErrorCode.INDETERMINATE, message, null);
        }
    }

    /** Granted, but with less lease left than the work budget. It is being released. */
    public static final class InsufficientLease extends TicketingException {
        private static final long serialVersionUID = 1L;

        InsufficientLease(String message) {
            super(ErrorCode.INSUFFICIENT_LEASE, message, null);
        }
    }

    /** An argument breaks a rule. Nothing was sent. */
    public static final class InvalidInput extends TicketingException {
        private static final long serialVersionUID = 1L;

        InvalidInput(String message) {
            super(ErrorCode.INVALID_INPUT, message, null);
        }

        InvalidInput(String message, Throwable cause) {
            super(ErrorCode.INVALID_INPUT, message, cause);
        }
    }

    /**
     * Not held: up to the end of the wait the cluster had no leader that serves, or a restarted single server still
     * waited for the leases of its predecessor to end.
     */
    public static final class NoLeader extends TicketingException {
        private static final long serialVersionUID = 1L;

        NoLeader() {
            super(
                    ErrorCode.NO_LEADER,
                    "no server grants now: a restarted single server waits until its predecessor's leases are over, "
                            + "a cluster needs a majority of its nodes; wait longer or try again",
                    null);
        }
    }

    /** Not held: no server was reachable within the wait. */
    public static final class NotConnected extends TicketingException {
        private static final long serialVersionUID = 1L;

        NotConnected(String message) {
            super(ErrorCode.NOT_CONNECTED, message, null);
        }
    }

    /** Release only: no definite answer within 5 s. The lease ends the lock. */
    public static final class ReleaseUnconfirmed extends TicketingException {
        private static final long serialVersionUID = 1L;

        ReleaseUnconfirmed(String message) {
            super(ErrorCode.RELEASE_UNCONFIRMED, message, null);
        }
    }

    /** The turn did not come within the wait. Not held, and this request can never be granted. */
    public static final class Timeout extends TicketingException {
        private static final long serialVersionUID = 1L;

        Timeout() {
            super(ErrorCode.TIMEOUT, "the turn did not come within the wait; wait longer or try again", null);
        }
    }

    /** Not held: the server refused the token. */
    public static final class Unauthorized extends TicketingException {
        private static final long serialVersionUID = 1L;

        Unauthorized() {
            super(
                    ErrorCode.UNAUTHORIZED,
                    "the server refused the token, or its cluster has another fingerprint; "
                            + "give the client those that the server accepts",
                    null);
        }
    }

    /** The server refused the request's values; nothing was done. */
    public static final class Rejected extends TicketingException {
        private static final long serialVersionUID = 1L;

        private final int rejectionCode;

        Rejected(int rejectionCode) {
            super(ErrorCode.REJECTED, "the server refused the request: " + rejectionName(rejectionCode), null);
            this.rejectionCode = rejectionCode;
        }

        /**
         * The protocol's error code.
         *
         * @return 1 to 7
         */
        public int rejectionCode() {
            return rejectionCode;
        }

        private static String rejectionName(int code) {
            return switch (code) {
                case 1 -> "BadKey: a key breaks the key rule";
                case 2 -> "BadLease: lease 0 or above 250 s";
                case 3 -> "NotActive: the node does not take part";
                case 4 -> "NoLeader: no leader known, or no majority";
                case 5 -> "BadKeySet: 2-16 keys, strictly ascending";
                case 6 -> "GroupMismatch: the token was granted for another set of keys";
                case 7 -> "BadToken: token 0";
                default -> "code " + code;
            };
        }
    }
}
