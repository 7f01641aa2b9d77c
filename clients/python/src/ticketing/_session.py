"""One connection as a state machine without I/O: handshake, then requests matched to replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from . import _wire as wire

T = TypeVar("T")


class Session(Generic[T]):
    """The client's end of one connection.

    T is what the owner wants back with the answer to a request.
    """

    __slots__ = ("_identity", "_input", "_last_id", "_outstanding", "_token", "_voters", "accepted")

    def __init__(self, identity: wire.Identity, token: bytes, voters: int) -> None:
        """Expect that server. voters is the number of slots, 0 in single mode."""
        self._identity = identity
        self._token = token
        self._voters = voters
        self._input = b""
        self._last_id = 0
        self._outstanding: dict[int, tuple[int, T]] = {}
        #: Whether the handshake is over and requests may be sent.
        self.accepted = False

    @property
    def outstanding(self) -> int:
        """Number of requests without an answer."""
        return len(self._outstanding)

    def handshake(self, data: bytes) -> bytes:
        """Take bytes until accepted, and return the bytes to send back.

        What follows the handshake is kept for receive(b"").
        """
        size = wire.HELLO_SIZE_BYTES
        before = len(self._input)
        self._input += data
        proof = b""
        if before < size <= len(self._input):
            proof = self._identity.proof(self._input[:size], self._token)
        if len(self._input) > size:
            verdict = self._input[size]
            if verdict == wire.REFUSED_TOKEN:
                raise wire.TokenRefusedError("server refused the token")
            if verdict != wire.ACCEPTED:
                raise wire.ProtocolError(f"server answered the proof with byte {verdict}")
            self.accepted = True
            self._input = self._input[size + 1 :]
        return proof

    def acquire(self, owner: T, wait: int, lease: int, keys: Sequence[bytes]) -> bytes:
        """Number an acquire and return its frame."""
        self._last_id += 1
        kind = wire.ACQUIRE if len(keys) == 1 else wire.ACQUIRE_SET
        self._outstanding[self._last_id] = (kind, owner)
        return wire.acquire_frame(self._last_id, wait, lease, keys)

    def release(self, owner: T, token: int, keys: Sequence[bytes]) -> bytes:
        """Number a release and return its frame."""
        self._last_id += 1
        kind = wire.RELEASE if len(keys) == 1 else wire.RELEASE_SET
        self._outstanding[self._last_id] = (kind, owner)
        return wire.release_frame(self._last_id, token, keys)

    def receive(self, data: bytes) -> tuple[list[tuple[T | None, wire.Reply]], str | None]:
        """Take bytes, split anywhere, and return replies with the owners of their requests.

        Unsolicited replies have no owner. The second value is the fault that ends the session, if
        any; the replies came before it.
        """
        if self._input:
            data = self._input + data
        replies: list[tuple[T | None, wire.Reply]] = []
        offset = 0
        try:
            while decoded := wire.decode_reply(data, offset, self._voters):
                reply, offset = decoded
                replies.append((self._owner(reply), reply))
        except wire.ProtocolError as fault:
            return replies, str(fault)
        self._input = data[offset:]
        return replies, None

    def _owner(self, reply: wire.Reply) -> T | None:
        if reply.op == wire.LEADER:
            return None
        kind, owner = self._outstanding.get(reply.request_id, (0, None))
        if owner is None:
            raise wire.ProtocolError(f"reply answers request {reply.request_id}, which is not open")
        if not reply.answers(kind):
            raise wire.ProtocolError(f"reply {chr(reply.op)} does not fit a {chr(kind)} request")
        del self._outstanding[reply.request_id]
        return owner

    def abandon(self) -> list[T]:
        """End the session and return the owners of all requests without an answer."""
        owners = [owner for _, owner in self._outstanding.values()]
        self._outstanding.clear()
        return owners
