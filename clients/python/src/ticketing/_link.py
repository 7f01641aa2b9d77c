"""The place of one connection: connects, serves, and reconnects until the broker closes. No I/O."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from . import _wire as wire
from ._calls import Request, State, is_not_serving
from ._limits import BATCH_SIZE_BYTES_MAX, OUTSTANDING_MAX
from ._session import Session

if TYPE_CHECKING:
    from ._engine import Engine
    from ._settings import Address
    from ._timers import Entry


class Phase(Enum):
    """What a link is doing."""

    IDLE = 0
    CONNECTING = 1
    HANDSHAKE = 2
    USABLE = 3
    BACKOFF = 4


class Action(Enum):
    """What the shell must do for a link."""

    CONNECT = 0
    DISCONNECT = 1


class Link:
    """One address's connection, over and over.

    The shell names the connection it speaks of by the epoch at its CONNECT action; what it says of
    an earlier one is ignored.
    """

    __slots__ = (
        "_backoff",
        "_engine",
        "_handshake_output",
        "_heard_at",
        "_identity",
        "_opened_at",
        "_queue",
        "address",
        "epoch",
        "phase",
        "session",
        "slot",
        "timer",
    )

    def __init__(
        self, engine: Engine, address: Address, slot: int | None, identity: wire.Identity
    ) -> None:
        """Belong to an engine; slot is None in single mode."""
        self._engine = engine
        self.address = address
        self.slot = slot
        self._identity = identity
        self.epoch = 0
        self.phase = Phase.IDLE
        self.timer: Entry | None = None
        self._backoff = engine.timing.backoff_min
        self._queue: deque[Request] = deque()
        #: Of the current connection.
        self.session: Session[Request] | None = None
        self._handshake_output = b""
        self._opened_at = 0.0
        self._heard_at = 0.0

    # Inputs.

    def connect(self, now: float) -> None:
        """Begin a connection."""
        self.phase = Phase.CONNECTING
        self.epoch += 1
        self._engine.actions.append((Action.CONNECT, self))
        self._engine.timers.set(self, now + self._engine.timing.connect)

    def connected(self, epoch: int, now: float) -> None:
        """Take note that TCP is connected; TLS and the challenge-response follow."""
        if epoch != self.epoch or self.phase is not Phase.CONNECTING:
            return
        self.phase = Phase.HANDSHAKE
        engine = self._engine
        self.session = Session(self._identity, engine.settings.token, engine.settings.voters)
        engine.timers.set(self, now + engine.timing.handshake)

    def received(self, epoch: int, data: bytes, now: float) -> None:
        """Take bytes from the server."""
        session = self.session
        if epoch != self.epoch or session is None:
            return
        self._heard_at = now
        if self.phase is Phase.HANDSHAKE:
            if not self._shake_hands(session, data, now):
                return
            data = b""
        replies, fault = session.receive(data)
        for request, reply in replies:
            if reply.op in (wire.LEADER, wire.MOVED):
                self._engine.set_leader(reply.value)
            elif is_not_serving(reply):
                self._engine.forget_leader(self)
            if request is not None:
                request.answered(reply, now)
        if fault is not None:
            self._fail(fault, now)

    def lost(self, epoch: int, reason: str, now: float) -> None:
        """Take note that the connection failed or ended."""
        if epoch == self.epoch and self.phase not in (Phase.IDLE, Phase.BACKOFF):
            self._ended(reason, now)

    def expired(self, now: float) -> None:
        """Act on the end of back-off or on a connection that takes too long."""
        if self.phase is Phase.BACKOFF:
            self.connect(now)
        elif self.phase is Phase.CONNECTING:
            self._fail("connecting takes too long", now)
        else:
            self._fail("the handshake takes too long", now)

    def submit(self, request: Request) -> None:
        """Queue a request."""
        self._queue.append(request)
        self._engine.writable.add(self)

    def close_if_silent(self, since: float, now: float) -> None:
        """Close a connection on which nothing came since then: it is dead."""
        if self.phase is Phase.USABLE and self._heard_at < since:
            self._fail("the server is silent", now)

    def shut(self, now: float) -> None:
        """End for good."""
        if self.phase in (Phase.CONNECTING, Phase.HANDSHAKE, Phase.USABLE):
            self._fail("the broker closed", now)
        self.phase = Phase.IDLE
        self._engine.timers.cancel(self)

    # Output.

    def output(self, epoch: int, now: float) -> bytes:
        """Return the next bytes for that connection; the requests in them are sent from here on."""
        session = self.session
        if epoch != self.epoch or session is None:
            return b""
        if self._handshake_output:
            proof, self._handshake_output = self._handshake_output, b""
            return proof
        frames: list[bytes] = []
        size = 0
        while self._queue and size < BATCH_SIZE_BYTES_MAX:
            request = self._queue.popleft()
            if request.state is State.QUEUED and (frame := request.send(session, now)):
                frames.append(frame)
                size += len(frame)
        if session.outstanding > OUTSTANDING_MAX:
            self._fail("the server leaves too many requests unanswered", now)
        return b"".join(frames)

    # Details.

    def _shake_hands(self, session: Session[Request], data: bytes, now: float) -> bool:
        """Tell whether the handshake is over."""
        try:
            proof = session.handshake(data)
        except (wire.ProtocolError, wire.TokenRefusedError) as fault:
            if isinstance(fault, wire.TokenRefusedError):
                self._engine.refused = True
            self._fail(str(fault), now)
            return False
        if proof:
            self._handshake_output = proof
            self._engine.writable.add(self)
        if not session.accepted:
            return False
        self.phase = Phase.USABLE
        self._opened_at = now
        self._engine.timers.cancel(self)
        self._engine.link_usable(now)
        return True

    def _fail(self, reason: str, now: float) -> None:
        """End the connection from this side."""
        self._engine.actions.append((Action.DISCONNECT, self))
        self._ended(reason, now)

    def _ended(self, reason: str, now: float) -> None:
        engine, session = self._engine, self.session
        if self.phase is Phase.USABLE and now - self._opened_at >= engine.timing.session_long:
            self._backoff = engine.timing.backoff_min
        self.phase = Phase.BACKOFF
        self.session = None
        self._handshake_output = b""
        engine.timers.set(self, now + self._backoff)
        self._backoff = min(self._backoff * 2, engine.timing.backoff_max)
        engine.link_ended(self, reason)
        unsent, self._queue = self._queue, deque()
        sent = session.abandon() if session is not None else []
        for request in (*sent, *unsent):
            if request.state is not State.DONE:
                request.lost(now)
