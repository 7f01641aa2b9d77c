"""The calls of a broker as state machines without I/O: each ends with exactly one outcome.

A request's life: queued -> sent (a byte may have left) -> done. Whether a lost acquire is retried
or indeterminate hangs on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from . import _wire as wire
from ._errors import (
    BusyError,
    CancelledError,
    ClosedError,
    IndeterminateError,
    InsufficientLeaseError,
    NoLeaderError,
    RejectedError,
    RejectionCode,
    ReleaseUnconfirmedError,
    TicketingError,
    TimeoutError,
)

if TYPE_CHECKING:
    from ._engine import Engine
    from ._link import Link
    from ._session import Session
    from ._settings import Terms
    from ._timers import Entry


class State(Enum):
    """How far a request has come."""

    QUEUED = 0
    SENT = 1
    DONE = 2


class Request:
    """One attempt of a call, on one link."""

    __slots__ = ("abandoned", "call", "link", "sent_at", "state", "wait")

    def __init__(self, call: AcquireCall | ReleaseCall, link: Link) -> None:
        """Begin as queued."""
        self.call = call
        self.link = link
        self.state = State.QUEUED
        #: Just before it was handed to the socket.
        self.sent_at = 0.0
        #: Of an acquire: the wait sent, in seconds.
        self.wait = 0
        #: Nobody waits for the answer; a grant in it is released.
        self.abandoned = False

    def send(self, session: Session[Request], now: float) -> bytes:
        """Return the frame and be sent, or return nothing if the call has no time left."""
        frame = self.call.frame(self, session, now)
        if frame:
            self.state = State.SENT
            self.sent_at = now
        else:
            self.lost(now)
        return frame

    def answered(self, reply: wire.Reply, now: float) -> None:
        """Take the reply."""
        self.state = State.DONE
        if self.abandoned:
            self.call.abandoned_answer(reply, now)
        else:
            self.call.answered(self, reply, now)

    def lost(self, now: float) -> None:
        """Take the loss of the connection, before or after it was sent."""
        sent = self.state is State.SENT
        self.state = State.DONE
        if self.abandoned:
            self.call.abandoned_answer(None, now)
        else:
            self.call.lost(self, sent, now)


class Grant(NamedTuple):
    """A lock on the server."""

    token: int
    #: On the clock of time.monotonic().
    valid_before: float


class Pause:
    """The growing pause between attempts of one call."""

    __slots__ = ("_length", "_max")

    def __init__(self, first: float, longest: float) -> None:
        """Begin with the first pause, in seconds."""
        self._length = first
        self._max = longest

    def next(self) -> float:
        """Return the next pause."""
        length = self._length
        self._length = min(length * 2, self._max)
        return length


def _is_grant(reply: wire.Reply) -> bool:
    return reply.op in (wire.ACQUIRE, wire.ACQUIRE_SET)


def is_not_serving(reply: wire.Reply) -> bool:
    """Tell whether the node says that it does not lead."""
    return reply.op == wire.REFUSED and reply.value in (wire.NO_LEADER, wire.NOT_ACTIVE)


def _was_not_taken(reply: wire.Reply) -> bool:
    """Tell whether the server provably did nothing and another may serve."""
    return reply.op == wire.MOVED or is_not_serving(reply)


class AcquireCall:
    """One logical acquire: attempts until a definite outcome."""

    __slots__ = (
        "_deadline",
        "_engine",
        "_ever_usable",
        "_leaderless",
        "_pause",
        "_request",
        "keys",
        "on_done",
        "outcome",
        "terms",
        "timer",
    )

    def __init__(self, keys: tuple[bytes, ...], terms: Terms, on_done: Callable[[], None]) -> None:
        """Take checked arguments; on_done is called once, when the outcome is there."""
        self.keys = keys
        self.terms = terms
        self.on_done = on_done
        self.outcome: Grant | TicketingError | None = None
        self.timer: Entry | None = None
        self._request: Request | None = None
        self._ever_usable = False
        #: The last answer was MOVED, NoLeader or NotActive.
        self._leaderless = False

    def begin(self, engine: Engine, now: float) -> None:
        """Start. The outcome may be there at once."""
        self._engine = engine
        self._deadline = now + (self.terms.wait or engine.timing.immediate_find)
        self._pause = Pause(engine.timing.retry_min, engine.timing.retry_max)
        engine.timers.set(self, self._deadline)
        self.dispatch(now)

    def dispatch(self, now: float) -> None:
        """Send the request, or wait for a usable link."""
        link = self._engine.choose(())
        if link is None:
            self._engine.waiting[self] = None
            return
        self._ever_usable = True
        self._request = Request(self, link)
        link.submit(self._request)

    def frame(self, request: Request, session: Session[Request], now: float) -> bytes:
        """Encode the request, unless nothing is left of the wait."""
        if self.terms.wait:
            left = self._deadline - now
            if left <= 0:
                return b""
            # The sum of two floats may exceed the whole wait by a rounding error.
            request.wait = min(math.ceil(left), self.terms.wait)
        return session.acquire(request, request.wait, self.terms.lease, self.keys)

    def answered(self, request: Request, reply: wire.Reply, now: float) -> None:
        """Turn the reply into the outcome, or try again."""
        self._request = None
        self._leaderless = _was_not_taken(reply)
        if self._leaderless:
            self._retry(now)
        elif _is_grant(reply):
            self._granted(Grant(reply.value, request.sent_at + self.terms.lease), now)
        elif reply.op == wire.TIMED_OUT:
            self._finish(TimeoutError())
        elif reply.op == wire.BUSY:
            self._finish(BusyError())
        elif reply.op == wire.REFUSED:
            self._finish(RejectedError(RejectionCode(reply.value)))
        else:
            self._finish(IndeterminateError("the server lost its leadership meanwhile"))

    def lost(self, request: Request, sent: bool, now: float) -> None:
        """Try again at once if no byte was sent."""
        self._request = None
        if sent:
            self._finish(IndeterminateError("the connection broke before the answer"))
        elif now >= self._deadline:
            self._finish(self._exhausted())
        else:
            self.dispatch(now)

    def abandoned_answer(self, reply: wire.Reply | None, now: float) -> None:
        """Release a grant that came after the caller had gone."""
        self._engine.pending_count -= 1
        if reply is not None and _is_grant(reply):
            self._engine.release_unwanted(self.keys, reply.value, now)

    def expired(self, now: float) -> None:
        """Act on the end of a pause, of the wait, or of the answer grace."""
        request = self._request
        if request is not None and request.state is State.SENT:
            due = request.sent_at + request.wait + self._engine.timing.answer_grace
            if now < due:
                self._engine.timers.set(self, due)
                return
            self._give_up(IndeterminateError("no answer came in time"))
            request.link.close_if_silent(request.sent_at, now)
        elif request is None and now < self._deadline:
            self._engine.timers.set(self, self._deadline)
            self.dispatch(now)
        else:
            self._give_up(self._exhausted())

    def cancel(self) -> None:
        """Give up, unless there is an outcome. A grant that comes too late is released."""
        if self.outcome is None:
            self._give_up(CancelledError("the call was cancelled"))

    def disown(self, now: float) -> None:
        """Give up for a caller who can take no outcome, not even one that is there."""
        self.cancel()
        if isinstance(self.outcome, Grant):
            self._engine.release_unwanted(self.keys, self.outcome.token, now)

    def close(self, now: float) -> None:
        """Give up because the broker closes."""
        request = self._request
        if request is not None and request.state is State.SENT:
            self._give_up(IndeterminateError("the broker closed before the answer"))
        else:
            self._give_up(ClosedError("the broker is closed"))

    def _give_up(self, error: TicketingError) -> None:
        """End without waiting for an answer. A sent request leaves a tombstone."""
        request = self._request
        if request is not None:
            if request.state is State.SENT:
                request.abandoned = True
                # Until it is answered, it counts towards the pending limit.
                self._engine.pending_count += 1
            else:
                request.state = State.DONE
        self._finish(error)

    def _retry(self, now: float) -> None:
        if now >= self._deadline:
            self._finish(self._exhausted())
        else:
            self._engine.timers.set(self, min(now + self._pause.next(), self._deadline))

    def _granted(self, grant: Grant, now: float) -> None:
        left = grant.valid_before - now
        if left > 0 and left >= self.terms.budget:
            self._finish(grant)
            return
        self._engine.release_unwanted(self.keys, grant.token, now)
        self._finish(
            InsufficientLeaseError(f"{left:.3f} s of at least {self.terms.budget} s are left")
        )

    def _exhausted(self) -> TicketingError:
        """Return the outcome when the wait is over while nothing is outstanding."""
        if not self._ever_usable:
            return self._engine.unreachable()
        if self._leaderless:
            return NoLeaderError()
        return TimeoutError()

    def _finish(self, outcome: Grant | TicketingError) -> None:
        self.outcome = outcome
        self._engine.finish_acquire(self)
        self.on_done()


class ReleaseCall:
    """One logical release: attempts until a definite answer or the end of its window."""

    __slots__ = (
        "_deadline",
        "_engine",
        "_pause",
        "_request",
        "_silent",
        "keys",
        "on_done",
        "outcome",
        "timer",
        "token",
    )

    def __init__(self, keys: tuple[bytes, ...], token: int, on_done: Callable[[], None]) -> None:
        """Release that grant; on_done is called once, when the outcome is there."""
        self.keys = keys
        self.token = token
        self.on_done = on_done
        #: True: released. False: the token holds nothing any more.
        self.outcome: bool | TicketingError | None = None
        self.timer: Entry | None = None

    def begin(self, engine: Engine, now: float) -> None:
        """Start. The outcome may be there at once."""
        self._engine = engine
        self._deadline = now + engine.timing.release_window
        self._pause = Pause(engine.timing.retry_min, engine.timing.retry_max)
        self._request: Request | None = None
        #: Of attempts without an answer in time.
        self._silent: list[Session[Request] | None] = []
        self.dispatch(now)

    def dispatch(self, now: float) -> None:
        """Send it, not on a silent connection if there is another, or wait for a usable one."""
        link = self._engine.choose(self._silent)
        if link is None:
            self._engine.waiting[self] = None
            self._engine.timers.set(self, self._deadline)
            return
        self._request = Request(self, link)
        link.submit(self._request)
        self._engine.timers.set(
            self, min(now + self._engine.timing.release_attempt, self._deadline)
        )

    def frame(self, request: Request, session: Session[Request], now: float) -> bytes:
        """Encode the request."""
        return session.release(request, self.token, self.keys)

    def answered(self, request: Request, reply: wire.Reply, now: float) -> None:
        """Take a definite answer to any attempt, even a late one; otherwise send it again."""
        if self.outcome is not None:
            return
        if reply.op in (wire.RELEASE, wire.RELEASE_SET):
            self._finish(True, now)
        elif reply.op == wire.NOT_HELD:
            self._finish(False, now)
        elif reply.op == wire.REFUSED and not _was_not_taken(reply):
            self._finish(RejectedError(RejectionCode(reply.value)), now)
        else:
            self._again(request, now)

    def lost(self, request: Request, sent: bool, now: float) -> None:
        """Send it again: the exact token can release only this grant."""
        if self.outcome is None:
            self._again(request, now)

    def abandoned_answer(self, reply: wire.Reply | None, now: float) -> None:
        """Ignore the answer; a release is never abandoned before it ends."""

    def _again(self, request: Request, now: float) -> None:
        if request is self._request:
            self._request = None
            self._engine.timers.set(self, min(now + self._pause.next(), self._deadline))

    def expired(self, now: float) -> None:
        """Act on the end of a pause, of an attempt, or of the window."""
        request, self._request = self._request, None
        if request is not None:
            self._silent.append(request.link.session)
            if request.state is State.QUEUED:
                request.state = State.DONE  # The next attempt is sent in its place.
        if now >= self._deadline:
            error = ReleaseUnconfirmedError("no definite answer within the release window")
            self._finish(error, now)
        else:
            self.dispatch(now)

    def close(self, now: float) -> None:
        """Give up because the broker closes."""
        self._finish(ReleaseUnconfirmedError("the broker closed before the answer"), now)

    def _finish(self, outcome: bool | TicketingError, now: float) -> None:
        self.outcome = outcome
        # First the caller: the end of the last release may end the broker.
        self.on_done()
        self._engine.finish_release(self, now)


class ReadyCall:
    """Waits until a link is usable."""

    __slots__ = ("_deadline", "_engine", "_timeout", "on_done", "outcome", "timer")

    def __init__(self, timeout: float, on_done: Callable[[], None]) -> None:
        """Wait at most that long, in seconds."""
        self._timeout = timeout
        self.on_done = on_done
        self.outcome: bool | TicketingError | None = None
        self.timer: Entry | None = None

    def begin(self, engine: Engine, now: float) -> None:
        """Start. The outcome may be there at once."""
        self._engine = engine
        engine.timers.set(self, now + self._timeout)
        self.dispatch(now)

    def dispatch(self, now: float) -> None:
        """End if a link is usable, else wait on."""
        if self._engine.any_usable():
            self._finish(True)
        else:
            self._engine.waiting[self] = None

    def expired(self, now: float) -> None:
        """Act on the end of the time."""
        self._finish(self._engine.unreachable())

    def cancel(self) -> None:
        """Give up, unless there is an outcome."""
        if self.outcome is None:
            self._finish(CancelledError("the call was cancelled"))

    def close(self, now: float) -> None:
        """Give up because the broker closes."""
        self._finish(ClosedError("the broker is closed"))

    def _finish(self, outcome: bool | TicketingError) -> None:
        self.outcome = outcome
        self._engine.finish_ready(self)
        self.on_done()
