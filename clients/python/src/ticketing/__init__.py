"""Client of the Ticketing lock server: fair distributed locks with leases and fencing tokens.

    with Broker("127.0.0.1:5225") as broker:
        with broker.acquire("order-1234", wait=5, lease=30) as ticket:
            save(order, fence=ticket.token)

AsyncBroker is the same for asyncio. Times are in seconds. Every error is a TicketingError; its
subclasses say what is known about the lock. After IndeterminateError it may be held without this
process knowing: do not enter the critical section.
"""

from ._aio import AsyncBroker, AsyncTicket
from ._blocking import Broker, Cancellation, Ticket
from ._errors import (
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
    RejectionCode,
    ReleaseUnconfirmedError,
    TicketingError,
    TimeoutError,
    UnauthorizedError,
)
from ._settings import Domain

__all__ = [
    "AsyncBroker",
    "AsyncTicket",
    "Broker",
    "BusyError",
    "Cancellation",
    "CancelledError",
    "ClientCapacityError",
    "ClosedError",
    "Domain",
    "IndeterminateError",
    "InsufficientLeaseError",
    "InvalidInputError",
    "NoLeaderError",
    "NotConnectedError",
    "RejectedError",
    "RejectionCode",
    "ReleaseUnconfirmedError",
    "Ticket",
    "TicketingError",
    "TimeoutError",
    "UnauthorizedError",
]
