"""The server's side of the protocol, the golden vectors, and an engine on virtual time."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ticketing._calls import AcquireCall, ReadyCall, ReleaseCall
from ticketing._engine import Engine
from ticketing._limits import Timing
from ticketing._link import Action, Link
from ticketing._settings import Settings, check_keys, check_terms

VECTORS = Path(__file__).resolve().parents[3] / "vectors"
#: Bounds what a test waits for things that must happen. It is never the expected time.
PATIENCE = 20.0


def load(topic: str) -> list[dict[str, Any]]:
    """Return the cases of a topic."""
    file = json.loads((VECTORS / f"{topic}.json").read_text())
    assert file["format"] == 1
    assert file["case_count"] == len(file["cases"]) > 0
    cases: list[dict[str, Any]] = file["cases"]
    return cases


@dataclass
class Request:
    """A request as a server reads it."""

    op: str
    request_id: int
    keys: tuple[bytes, ...]
    wait: int = 0
    lease: int = 0
    token: int = 0


class BadFrameError(Exception):
    """What ends a connection. Protocol, "What ends a connection"."""


BODY_SIZES = {"A": (10, 138), "R": (16, 144), "S": (11, 2075), "G": (17, 2081)}


def decode_request(data: bytes) -> tuple[Request, int] | None:
    """Read the request frame at the start, and its size; None if it is incomplete."""
    if data and chr(data[0]) not in BODY_SIZES:
        raise BadFrameError("opcode")
    if len(data) < 3:
        return None
    op, (size,) = chr(data[0]), struct.unpack_from(">H", data, 1)
    fixed, longest = BODY_SIZES[op]
    if not fixed <= size <= longest:
        raise BadFrameError("length")
    body = data[3 : 3 + size]
    if len(body) < size:
        return None
    request = Request(op, int.from_bytes(body[:8], "big"), ())
    if request.request_id == 0:
        raise BadFrameError("request id 0")
    if op in "AS":
        request.wait, request.lease = body[8], body[9]
    else:
        request.token = int.from_bytes(body[8:16], "big")
    if op in "AR":
        request.keys = (body[fixed:],)
    else:
        request.keys = _records(body[fixed - 1], body[fixed:])
    return request, 3 + size


def _records(count: int, data: bytes) -> tuple[bytes, ...]:
    keys = []
    for _ in range(count):
        if not data or len(data) < 1 + data[0]:
            raise BadFrameError("records")
        keys.append(data[1 : 1 + data[0]])
        data = data[1 + data[0] :]
    if data:
        raise BadFrameError("records")
    return tuple(keys)


def reply_frame(op: str, request_id: int = 0, value: int = 0) -> bytes:
    """Encode a reply; value is its token, slot or code."""
    body = b"" if op == "L" else struct.pack(">Q", request_id)
    if op in "AS":
        body += struct.pack(">Q", value)
    elif op in "MLE":
        body += bytes((value,))
    return struct.pack(">BH", ord(op), len(body)) + body


def hello(mode: int = 0, slot: int = 255, nonce: bytes = bytes(16)) -> bytes:
    """Return a server hello."""
    return b"TCKCLI3\0" + struct.pack(">HBB", 3, mode, slot) + nonce


FINGERPRINT = bytes(range(32))


def settings(addresses: Any = "127.0.0.1:5225", **changes: Any) -> Settings:
    """Return checked settings."""
    defaults: dict[str, Any] = {
        "fingerprint": None,
        "token": None,
        "ssl": False,
        "server_hostname": None,
        "pending_limit": 1024,
        "release_queue_limit": 1024,
    }
    return Settings.check(addresses, **{**defaults, **changes})


@dataclass
class World:
    """An engine, the time, and the server's ends of its connections."""

    settings: Settings = field(default_factory=settings)
    timing: Timing = field(default_factory=Timing)
    now: float = 1000.0
    closed: bool = False

    def __post_init__(self) -> None:
        self.engine = Engine(self.settings, self.timing, self._closed)
        self.connects: list[tuple[float, Link]] = []
        self.disconnects: list[Link] = []
        self.engine.start(self.now)
        self.pump()

    def _closed(self) -> None:
        self.closed = True

    @classmethod
    def cluster(cls, voters: int = 3) -> World:
        """A cluster whose links are all usable."""
        addresses = [f"127.0.0.1:{port}" for port in range(1, voters + 1)]
        return cls(settings(addresses, fingerprint=FINGERPRINT)).up()

    def pump(self) -> None:
        """Do what a shell does with actions. Output waits in the links until it is read."""
        for action, link in self.engine.actions:
            if action is Action.CONNECT:
                self.connects.append((self.now, link))
            else:
                self.disconnects.append(link)
        self.engine.actions.clear()

    def up(self, *links: Link) -> World:
        """Take links, by default all, through the handshake."""
        for link in links or self.engine.links:
            link.connected(link.epoch, self.now)
            slot = 255 if link.slot is None else link.slot
            self.feed(link, hello(0 if link.slot is None else 1, slot))
            assert len(link.output(link.epoch, self.now)) == 32
            self.feed(link, b"\x01")
        return self

    def feed(self, link: Link, data: bytes) -> None:
        """Let the server send bytes."""
        link.received(link.epoch, data, self.now)
        self.pump()

    def reply(self, link: Link, op: str, request_id: int = 0, value: int = 0) -> None:
        """Let the server send a reply."""
        self.feed(link, reply_frame(op, request_id, value))

    def cut(self, link: Link) -> None:
        """Break a connection."""
        link.lost(link.epoch, "cut", self.now)
        self.pump()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now + seconds
        while (at := self.engine.timers.next()) is not None and at <= end:
            self.now = max(self.now, at)
            self.engine.tick(self.now)
            self.pump()
        self.now = end

    def sent(self) -> list[tuple[Link, Request]]:
        """Hand all output to the sockets and return the requests in it."""
        requests = []
        for link in self.engine.links:
            data = b""
            while part := link.output(link.epoch, self.now):
                data += part
            while data:
                decoded = decode_request(data)
                assert decoded is not None
                requests.append((link, decoded[0]))
                data = data[decoded[1] :]
        self.pump()
        return requests

    def one(self) -> tuple[Link, Request]:
        """Return the only request that was sent."""
        ((link, request),) = self.sent()
        return link, request

    def acquire(
        self, *keys: str, wait: float = 10, lease: float = 30, budget: float = 0
    ) -> AcquireCall:
        """Begin an acquire."""
        call = AcquireCall(check_keys(keys), check_terms(wait, lease, budget), lambda: None)
        self.engine.acquire(call, self.now)
        self.pump()
        return call

    def release(self, token: int = 41, key: bytes = b"k") -> ReleaseCall:
        """Begin a release."""
        call = ReleaseCall((key,), token, lambda: None)
        self.engine.release(call, self.now)
        self.pump()
        return call

    def ready(self, timeout: float) -> ReadyCall:
        """Begin to wait for a usable link."""
        call = ReadyCall(timeout, lambda: None)
        self.engine.ready(call, self.now)
        return call
