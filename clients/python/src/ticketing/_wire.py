"""Requests to bytes and bytes to replies. No I/O, no clock.

Names in comments are sections of the protocol page.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

# Requests. A set is two or more keys under one token.
ACQUIRE: Final = ord("A")
RELEASE: Final = ord("R")
ACQUIRE_SET: Final = ord("S")
RELEASE_SET: Final = ord("G")

# Replies. A, S, R and G answer the request of the same letter.
NOT_HELD: Final = ord("N")
TIMED_OUT: Final = ord("T")
BUSY: Final = ord("B")
MOVED: Final = ord("M")
INDETERMINATE: Final = ord("I")
REFUSED: Final = ord("E")
LEADER: Final = ord("L")

#: "No leader known" in replies, and single mode in a hello.
NO_SLOT: Final = 255
NOT_ACTIVE: Final = 3
NO_LEADER: Final = 4

HELLO_SIZE_BYTES: Final = 28
ACCEPTED: Final = 1
REFUSED_TOKEN: Final = 0

_MAGIC: Final = b"TCKCLI3\0"
_VERSION: Final = 3
_PROOF_DOMAIN: Final = b"TCK/CLIENT/AUTH3"

_ACQUIRE_HEAD: Final = struct.Struct(">BHQBB")
_RELEASE_HEAD: Final = struct.Struct(">BHQQ")
_HEAD: Final = struct.Struct(">BH")
_ID: Final = struct.Struct(">Q")
_ID_TOKEN: Final = struct.Struct(">QQ")
_ID_BYTE: Final = struct.Struct(">QB")

#: Body length by opcode. Protocol, "Reply frames".
_REPLY_BODY_SIZES: Final = {
    ACQUIRE: 16,
    ACQUIRE_SET: 16,
    RELEASE: 8,
    RELEASE_SET: 8,
    NOT_HELD: 8,
    TIMED_OUT: 8,
    BUSY: 8,
    MOVED: 9,
    INDETERMINATE: 8,
    REFUSED: 9,
    LEADER: 1,
}

_ACQUIRES: Final = frozenset((ACQUIRE, ACQUIRE_SET))
_RELEASES: Final = frozenset((RELEASE, RELEASE_SET))
_ALL: Final = _ACQUIRES | _RELEASES
#: Requests that a reply may answer, by its opcode.
_ANSWERS: Final = {
    ACQUIRE: frozenset((ACQUIRE,)),
    ACQUIRE_SET: frozenset((ACQUIRE_SET,)),
    RELEASE: frozenset((RELEASE,)),
    RELEASE_SET: frozenset((RELEASE_SET,)),
    NOT_HELD: _RELEASES,
    TIMED_OUT: _ACQUIRES,
    BUSY: _ACQUIRES,
    MOVED: _ALL,
    INDETERMINATE: _ALL,
    LEADER: frozenset[int](),
}
#: Requests that a code of REFUSED may answer.
_REFUSABLE: Final = {
    1: _ALL,
    2: _ACQUIRES,
    3: _ALL,
    4: _ALL,
    5: frozenset((ACQUIRE_SET, RELEASE_SET)),
    6: _RELEASES,
    7: _RELEASES,
}


class ProtocolError(Exception):
    """The server broke the protocol: the session ends."""


class TokenRefusedError(Exception):
    """The server refused the client token."""


class Reply(NamedTuple):
    """One reply frame."""

    op: int
    #: 0 for LEADER.
    request_id: int = 0
    #: Token of a grant, slot of MOVED and LEADER, code of REFUSED; else 0.
    value: int = 0

    def answers(self, kind: int) -> bool:
        """Tell whether it may answer a request of that kind."""
        if self.op == REFUSED:
            return kind in _REFUSABLE[self.value]
        return kind in _ANSWERS[self.op]


def acquire_frame(request_id: int, wait: int, lease: int, keys: Sequence[bytes]) -> bytes:
    """Encode an acquire of checked keys; wait and lease in seconds."""
    if len(keys) == 1:
        key = keys[0]
        return _ACQUIRE_HEAD.pack(ACQUIRE, 10 + len(key), request_id, wait, lease) + key
    records = _records(keys)
    return _ACQUIRE_HEAD.pack(ACQUIRE_SET, 10 + len(records), request_id, wait, lease) + records


def release_frame(request_id: int, token: int, keys: Sequence[bytes]) -> bytes:
    """Encode a release of checked keys."""
    if len(keys) == 1:
        key = keys[0]
        return _RELEASE_HEAD.pack(RELEASE, 16 + len(key), request_id, token) + key
    records = _records(keys)
    return _RELEASE_HEAD.pack(RELEASE_SET, 16 + len(records), request_id, token) + records


def _records(keys: Sequence[bytes]) -> bytes:
    """Encode count and keys of a set."""
    parts = [bytes((len(keys),))]
    for key in keys:
        parts.append(bytes((len(key),)))
        parts.append(key)
    return b"".join(parts)


def decode_reply(data: bytes, offset: int, voters: int) -> tuple[Reply, int] | None:
    """Read the reply frame at an offset: the reply and the offset after it, None if incomplete.

    voters is the number of slots, 0 in single mode.
    """
    available = len(data) - offset
    if available < 1:
        return None
    op = data[offset]
    expected = _REPLY_BODY_SIZES.get(op)
    if expected is None:
        raise ProtocolError(f"reply has unknown opcode {op:#04x}")
    if op == LEADER and voters == 0:
        raise ProtocolError("leader announcement outside cluster mode")
    if available < 3:
        return None
    _, size = _HEAD.unpack_from(data, offset)
    if size != expected:
        raise ProtocolError(f"reply {chr(op)} has a body of {size} instead of {expected} bytes")
    if available < 3 + size:
        return None
    return _decode_body(op, data, offset + 3, voters), offset + 3 + size


def _decode_body(op: int, data: bytes, body: int, voters: int) -> Reply:
    if op == LEADER:
        return Reply(op, 0, _checked_slot(data[body], voters))
    value = 0
    if op in _ACQUIRES:
        request_id, value = _ID_TOKEN.unpack_from(data, body)
        if value == 0:
            raise ProtocolError("grant carries token 0")
    elif op in (MOVED, REFUSED):
        request_id, value = _ID_BYTE.unpack_from(data, body)
        if op == MOVED:
            _checked_slot(value, voters)
        elif value not in _REFUSABLE:
            raise ProtocolError(f"refusal carries unknown code {value}")
    else:
        (request_id,) = _ID.unpack_from(data, body)
    if request_id == 0:
        raise ProtocolError("reply answers request id 0")
    return Reply(op, request_id, value)


def _checked_slot(slot: int, voters: int) -> int:
    if slot != NO_SLOT and slot >= voters:
        raise ProtocolError(f"reply names slot {slot} of {voters}")
    return slot


class Identity(NamedTuple):
    """The server that a client expects at one address."""

    cluster: bool
    slot: int
    fingerprint: bytes

    @classmethod
    def single(cls) -> Identity:
        """Expect a server by itself."""
        return cls(False, NO_SLOT, hashlib.sha256(b"ticketing/single/v3").digest())

    @classmethod
    def member(cls, fingerprint: bytes, slot: int) -> Identity:
        """Expect the cluster node in that slot."""
        return cls(True, slot, fingerprint)

    def proof(self, hello: bytes, token: bytes) -> bytes:
        """Check a server hello against this identity and answer it.

        The token never crosses the wire. Protocol, "Connection".
        """
        magic, version, mode, slot = struct.unpack_from(">8sHBB", hello)
        if magic != _MAGIC:
            raise ProtocolError("not a Ticketing server (wrong magic)")
        if version != _VERSION:
            raise ProtocolError(f"server speaks protocol version {version}, not {_VERSION}")
        if mode != int(self.cluster):
            raise ProtocolError("server runs in another mode (single or cluster) than configured")
        if slot != self.slot:
            raise ProtocolError(f"server has slot {slot}, not {self.slot} as in the address list")
        message = _PROOF_DOMAIN + hello[8:11] + self.fingerprint + hello[11:]
        return hmac.digest(token, message, "sha256")
