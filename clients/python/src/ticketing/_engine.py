"""Everything of a broker between calls and bytes, without I/O and without a clock.

A shell feeds it with calls, bytes, losses and the time, and carries out what it asks for: actions,
output of writable links, and to be called again at the next deadline. It is not safe for
concurrent use; each shell keeps it to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container

from . import _wire as wire
from ._calls import AcquireCall, ReadyCall, ReleaseCall, Request
from ._errors import (
    ClientCapacityError,
    ClosedError,
    NotConnectedError,
    TicketingError,
    UnauthorizedError,
)
from ._limits import CONNECTIONS_SINGLE, Timing
from ._link import Action, Link, Phase
from ._session import Session
from ._settings import Settings
from ._timers import Entry, Timers

_LOGGER = logging.getLogger("ticketing")


def _nothing() -> None:
    """Take the outcome of a release in the background."""


class _Drain:
    """The deadline of closing."""

    __slots__ = ("_engine", "timer")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.timer: Entry | None = None

    def expired(self, now: float) -> None:
        self._engine.terminate(now)


class Engine:
    """The links and calls of one broker."""

    def __init__(self, settings: Settings, timing: Timing, on_closed: Callable[[], None]) -> None:
        """Take checked settings; on_closed is called once, when every call and link has ended."""
        self.settings = settings
        self.timing = timing
        self.timers = Timers()
        #: For the shell, in order: it empties the list.
        self.actions: list[tuple[Action, Link]] = []
        #: Links that have output, for the shell: it empties the set.
        self.writable: set[Link] = set()
        #: Calls that wait for a usable link, in order.
        self.waiting: dict[AcquireCall | ReleaseCall | ReadyCall, None] = {}
        #: Acquires between call and answer, tombstones included.
        self.pending_count = 0
        #: The last handshake that got a verdict was refused.
        self.refused = False
        #: New calls are refused; then everything has ended.
        self.closing = False
        self.closed = False
        self._on_closed = on_closed
        self._acquires: set[AcquireCall] = set()
        self._releases: set[ReleaseCall] = set()
        self._leader: int | None = None
        self._last_failure = ""
        self._next = 0
        self._drain = _Drain(self)
        self.links = self._make_links()

    def _make_links(self) -> list[Link]:
        fingerprint = self.settings.domain.fingerprint
        if fingerprint is None:
            address = self.settings.addresses[0]
            return [
                Link(self, address, None, wire.Identity.single()) for _ in range(CONNECTIONS_SINGLE)
            ]
        return [
            Link(self, address, slot, wire.Identity.member(fingerprint, slot))
            for slot, address in enumerate(self.settings.addresses)
        ]

    # Inputs.

    def start(self, now: float) -> None:
        """Begin to connect."""
        for link in self.links:
            link.connect(now)

    def acquire(self, call: AcquireCall, now: float) -> None:
        """Begin an acquire. Raises if there is no room for it."""
        if self.closing:
            raise ClosedError("the broker is closed")
        if self.pending_count >= self.settings.pending_limit:
            raise ClientCapacityError(f"{self.pending_count} acquires are pending")
        self.pending_count += 1
        self._acquires.add(call)
        call.begin(self, now)

    def release(self, call: ReleaseCall, now: float) -> None:
        """Begin a release. Raises if there is no room for it."""
        if self.closing:
            raise ClosedError("the broker is closed")
        self._begin_release(call, now)

    def ready(self, call: ReadyCall, now: float) -> None:
        """Begin to wait for a usable link."""
        if self.closing:
            raise ClosedError("the broker is closed")
        call.begin(self, now)

    def tick(self, now: float) -> None:
        """Act on all deadlines that have come."""
        self.timers.expire(now)

    def close(self, now: float) -> None:
        """Refuse new calls, end acquires, and let releases finish for a while."""
        if self.closing:
            return
        self.closing = True
        for acquire in list(self._acquires):
            acquire.close(now)
        for call in list(self.waiting):
            if isinstance(call, ReadyCall):
                call.close(now)
        if self._releases:
            self.timers.set(self._drain, now + self.timing.close_drain)
        else:
            self.terminate(now)

    def terminate(self, now: float) -> None:
        """End everything."""
        self.closed = True  # First: ending the last release comes back here.
        self.timers.cancel(self._drain)
        for release in list(self._releases):
            release.close(now)
        for link in self.links:
            link.shut(now)
        self._on_closed()

    # For calls and links.

    def choose(self, avoid: Container[Session[Request] | None]) -> Link | None:
        """Return the known leader's link if usable, otherwise usable ones in turn.

        One whose session is not to be avoided is preferred. None if no link is usable.
        """
        links = self.links
        fallback = None
        if self._leader is not None:
            link = links[self._leader]
            if link.phase is Phase.USABLE:
                if link.session not in avoid:
                    return link
                fallback = link
        count = len(links)
        self._next = (self._next + 1) % count
        for step in range(count):
            link = links[(self._next + step) % count]
            if link.phase is Phase.USABLE:
                if link.session not in avoid:
                    return link
                fallback = fallback or link
        return fallback

    def any_usable(self) -> bool:
        """Tell whether a link is usable."""
        return any(link.phase is Phase.USABLE for link in self.links)

    def unreachable(self) -> TicketingError:
        """Return the error of a call that found no usable link."""
        if self.refused:
            return UnauthorizedError()
        reason = self._last_failure or (
            "no answer yet; check the address, and that both sides use TLS or neither"
        )
        return NotConnectedError(f"no server is reachable: {reason}")

    def set_leader(self, slot: int) -> None:
        """Remember the leader's slot, or that none is known."""
        self._leader = None if slot == wire.NO_SLOT else slot

    def forget_leader(self, link: Link) -> None:
        """Forget the leader if it is this link's node."""
        if link.slot is not None and link.slot == self._leader:
            self._leader = None

    def link_usable(self, now: float) -> None:
        """Let the calls that wait for a link go on."""
        self.refused = False
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            call.dispatch(now)

    def link_ended(self, link: Link, reason: str) -> None:
        """Take note of a lost connection or a failed attempt."""
        self._last_failure = f"{link.address.host} port {link.address.port}: {reason}"
        _LOGGER.debug("connection ended: %s", self._last_failure)
        self.forget_leader(link)

    def release_unwanted(self, keys: tuple[bytes, ...], token: int, now: float) -> None:
        """Release a grant that no caller wants.

        When the release queue is full or the broker has closed, the lease ends the grant.
        """
        if self.closing and not self._releases:
            return
        try:
            self._begin_release(ReleaseCall(keys, token, _nothing), now)
        except ClientCapacityError as error:
            _LOGGER.warning("an unwanted grant is left to its lease: %s", error)

    def _begin_release(self, call: ReleaseCall, now: float) -> None:
        if len(self._releases) >= self.settings.release_queue_limit:
            raise ClientCapacityError(f"{len(self._releases)} releases are in progress")
        self._releases.add(call)
        call.begin(self, now)

    def finish_acquire(self, call: AcquireCall) -> None:
        """Forget an acquire that has its outcome."""
        self.pending_count -= 1
        self._acquires.discard(call)
        self.waiting.pop(call, None)
        self.timers.cancel(call)

    def finish_release(self, call: ReleaseCall, now: float) -> None:
        """Forget a release that has its outcome."""
        self._releases.discard(call)
        self.waiting.pop(call, None)
        self.timers.cancel(call)
        if self.closing and not self.closed and not self._releases:
            self.terminate(now)

    def finish_ready(self, call: ReadyCall) -> None:
        """Forget a waiter that has its outcome."""
        self.waiting.pop(call, None)
        self.timers.cancel(call)
