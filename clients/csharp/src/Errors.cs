using System;

namespace Ticketing
{
    /// <summary>Name of an error; the same in every official client.</summary>
    public enum ErrorCode
    {
        /// <summary>Not held: the server refused for capacity (too many keys, waiters or requests in flight).</summary>
        Busy,

        /// <summary>The client's own limit on pending requests is reached. Nothing was sent.</summary>
        ClientCapacity,

        /// <summary>The broker is closed. Nothing was sent.</summary>
        Closed,

        /// <summary>Unknown: the request may have been taken. Do not enter the critical section; at worst the lease ends the lock.</summary>
        Indeterminate,

        /// <summary>Granted, but with less lease left than the work budget. It is being released.</summary>
        InsufficientLease,

        /// <summary>An argument breaks a rule. Nothing was sent.</summary>
        InvalidInput,

        /// <summary>
        /// Not held: up to the end of the wait the cluster had no leader that serves, or a restarted single server
        /// still waited for the leases of its predecessor to end.
        /// </summary>
        NoLeader,

        /// <summary>Not held: no server was reachable within the wait.</summary>
        NotConnected,

        /// <summary>The server refused the request's values; nothing was done.</summary>
        Rejected,

        /// <summary>Release only: no definite answer within 5 s. The lease ends the lock.</summary>
        ReleaseUnconfirmed,

        /// <summary>The turn did not come within the wait. Not held, and this request can never be granted.</summary>
        Timeout,

        /// <summary>Not held: the server refused the token.</summary>
        Unauthorized,
    }

    /// <summary>
    /// Base of every error this library throws; a cancelled call throws <see cref="OperationCanceledException"/>.
    /// Branch on the class or on <see cref="Code"/>, never on the message: each tells what is known about the lock.
    /// </summary>
    public abstract class TicketingException : Exception
    {
        private protected TicketingException(ErrorCode code, string message, Exception? cause)
            : base(message, cause)
        {
            Code = code;
        }

        /// <summary>The error's name, which all official clients share.</summary>
        public ErrorCode Code { get; }
    }

    /// <summary>Not held: the server refused for capacity (too many keys, waiters or requests in flight).</summary>
    public sealed class BusyException : TicketingException
    {
        internal BusyException()
            : base(ErrorCode.Busy, "the server is at capacity; try again later or raise its limits", null)
        {
        }
    }

    /// <summary>The client's own limit on pending requests is reached. Nothing was sent.</summary>
    public sealed class ClientCapacityException : TicketingException
    {
        internal ClientCapacityException(string message, Exception? cause = null)
            : base(ErrorCode.ClientCapacity, message, cause)
        {
        }
    }

    /// <summary>The broker is closed. Nothing was sent.</summary>
    public sealed class ClosedException : TicketingException
    {
        internal ClosedException(string message, Exception? cause = null)
            : base(ErrorCode.Closed, message, cause)
        {
        }
    }

    /// <summary>Unknown: the request may have been taken. Do not enter the critical section; at worst the lease ends the lock.</summary>
    public sealed class IndeterminateException : TicketingException
    {
        internal IndeterminateException(string message, Exception? cause = null)
            : base(ErrorCode.Indeterminate, message, cause)
        {
        }
    }

    /// <summary>Granted, but with less lease left than the work budget. It is being released.</summary>
    public sealed class InsufficientLeaseException : TicketingException
    {
        internal InsufficientLeaseException(string message, Exception? cause = null)
            : base(ErrorCode.InsufficientLease, message, cause)
        {
        }
    }

    /// <summary>An argument breaks a rule. Nothing was sent.</summary>
    public sealed class InvalidInputException : TicketingException
    {
        internal InvalidInputException(string message, Exception? cause = null)
            : base(ErrorCode.InvalidInput, message, cause)
        {
        }
    }

    /// <summary>
    /// Not held: up to the end of the wait the cluster had no leader that serves, or a restarted single server still
    /// waited for the leases of its predecessor to end.
    /// </summary>
    public sealed class NoLeaderException : TicketingException
    {
        internal NoLeaderException()
            : base(
                ErrorCode.NoLeader,
                "no server grants now: a restarted single server waits until its predecessor's leases are over, "
                    + "a cluster needs a majority of its nodes; wait longer or try again",
                null)
        {
        }
    }

    /// <summary>Not held: no server was reachable within the wait.</summary>
    public sealed class NotConnectedException : TicketingException
    {
        internal NotConnectedException(string message, Exception? cause = null)
            : base(ErrorCode.NotConnected, message, cause)
        {
        }
    }

    /// <summary>Release only: no definite answer within 5 s. The lease ends the lock.</summary>
    public sealed class ReleaseUnconfirmedException : TicketingException
    {
        internal ReleaseUnconfirmedException(string message, Exception? cause = null)
            : base(ErrorCode.ReleaseUnconfirmed, message, cause)
        {
        }
    }

    /// <summary>The turn did not come within the wait. Not held, and this request can never be granted.</summary>
    public sealed class LockTimeoutException : TicketingException
    {
        internal LockTimeoutException()
            : base(ErrorCode.Timeout, "the turn did not come within the wait; wait longer or try again", null)
        {
        }
    }

    /// <summary>Not held: the server refused the token.</summary>
    public sealed class UnauthorizedException : TicketingException
    {
        internal UnauthorizedException()
            : base(
                ErrorCode.Unauthorized,
                "the server refused the token, or its cluster has another fingerprint; "
                + "give the client those that the server accepts",
                null)
        {
        }
    }

    /// <summary>The server refused the request's values; nothing was done.</summary>
    public sealed class RejectedException : TicketingException
    {
        private static readonly string[] Names =
        {
            "code 0",
            "BadKey: a key breaks the key rule",
            "BadLease: lease 0 or above 250 s",
            "NotActive: the node does not take part",
            "NoLeader: no leader known, or no majority",
            "BadKeySet: 2-16 keys, strictly ascending",
            "GroupMismatch: the token was granted for another set of keys",
            "BadToken: token 0",
        };

        internal RejectedException(byte rejectionCode)
            : base(ErrorCode.Rejected, "the server refused the request: " + Names[rejectionCode], null)
        {
            RejectionCode = rejectionCode;
        }

        /// <summary>The protocol's error code, 1 to 7.</summary>
        public byte RejectionCode { get; }
    }
}
