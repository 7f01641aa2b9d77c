"""What a call may end with. Each error says what is known about the lock."""

from __future__ import annotations

import builtins
from enum import IntEnum


class TicketingError(Exception):
    """Base of every error of this package."""


class InvalidInputError(TicketingError, ValueError):
    """An argument breaks a rule. Nothing was sent."""


class ClientCapacityError(TicketingError):
    """This broker has as many calls in progress as it may. Nothing was sent."""


class CancelledError(TicketingError):
    """The call was cancelled. Not held; whatever the server may have granted is being released.

    Raised by the blocking client only: a cancelled asyncio call raises asyncio's own.
    """


class ClosedError(TicketingError):
    """The broker is closed. Nothing was sent."""


class TimeoutError(TicketingError, builtins.TimeoutError):
    """The turn did not come within the wait. Not held, and this request can never be granted."""

    def __init__(
        self, message: str = "the turn did not come within the wait; wait longer or try again"
    ) -> None:
        """Say what helps."""
        super().__init__(message)


class BusyError(TicketingError):
    """Not held: the server is at capacity."""

    def __init__(
        self, message: str = "the server is at capacity; try again later or raise its limits"
    ) -> None:
        """Say what helps."""
        super().__init__(message)


class NotConnectedError(TicketingError, ConnectionError):
    """Not held: no server was reachable."""


class UnauthorizedError(TicketingError):
    """Not held: the server refused the token."""

    def __init__(
        self,
        message: str = "the server refused the token, or its cluster has another fingerprint; "
        "give the client those that the server accepts",
    ) -> None:
        """Say what helps."""
        super().__init__(message)


class NoLeaderError(TicketingError):
    """Not held: no server grants now.

    The cluster has no leader, or a restarted single server still waits for the leases of its
    predecessor to end.
    """

    def __init__(
        self,
        message: str = "no server grants now: a restarted single server waits until its "
        "predecessor's leases are over, a cluster needs a majority of its nodes; wait longer or "
        "try again",
    ) -> None:
        """Say what helps."""
        super().__init__(message)


class RejectedError(TicketingError):
    """The server refused the request's values. Not held (acquire) or not released (release)."""

    #: Why.
    code: RejectionCode

    def __init__(self, code: RejectionCode) -> None:
        """Name the code."""
        super().__init__(f"the server rejected the request: {code.name} (code {code.value})")
        self.code = code


class InsufficientLeaseError(TicketingError):
    """Granted, but too late to be useful; it is being released."""


class IndeterminateError(TicketingError):
    """Unknown whether the lock is held: do not enter the critical section.

    At worst the lease ends the lock.
    """


class ReleaseUnconfirmedError(TicketingError):
    """Release only: unknown whether the lock was released; the lease ends it."""


class RejectionCode(IntEnum):
    """Codes of the protocol. 3 (NotActive) and 4 (NoLeader) are retried and reach no caller."""

    BAD_KEY = 1
    BAD_LEASE = 2
    BAD_KEY_SET = 5
    GROUP_MISMATCH = 6
    BAD_TOKEN = 7
