"""A server on a real socket that does what a test says, and certificates for it."""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import PATIENCE, Request, decode_request, hello, reply_frame
from ticketing import AsyncBroker, Broker
from ticketing._limits import Timing

#: Back-off short enough for tests.
QUICK = Timing(backoff_min=0.005, backoff_max=0.02)


class QuickBroker(Broker):
    """A broker with it."""

    _timing = QUICK


class QuickAsyncBroker(AsyncBroker):
    """Likewise."""

    _timing = QUICK


class Peer:
    """The server's end of one connection, with blocking reads."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._input = b""

    def next(self) -> Request:
        """Read one request."""
        while (decoded := decode_request(self._input)) is None:
            data = self.socket.recv(65536)
            assert data, "the client closed the connection"
            self._input += data
        self._input = self._input[decoded[1] :]
        return decoded[0]

    def reply(self, op: str, request_id: int = 0, value: int = 0) -> None:
        """Send a reply."""
        self.socket.sendall(reply_frame(op, request_id, value))

    def expect_closed(self) -> None:
        """Wait for the client to close, without having sent anything more."""
        with contextlib.suppress(ConnectionResetError):
            assert self.socket.recv(65536) == b""


class Server:
    """Accepts connections and takes them through the handshake."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.context = context
        self.peers: list[Peer] = []
        self.raw: list[socket.socket] = []

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def accept_raw(self) -> socket.socket:
        """Accept a TCP connection."""
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENCE)
        self.raw.append(connection)
        return connection

    def accept(self) -> Peer:
        """Accept a connection, through its handshake."""
        connection = self.accept_raw()
        if self.context is not None:
            connection = self.context.wrap_socket(connection, server_side=True)
            self.raw.append(connection)
        connection.sendall(hello())
        proof = b""
        while len(proof) < 32:
            data = connection.recv(32 - len(proof))
            assert data
            proof += data
        connection.sendall(b"\x01")
        self.peers.append(Peer(connection))
        return self.peers[-1]

    def next(self) -> tuple[Peer, Request]:
        """Read the next request, on whichever connection it comes."""
        with selectors.DefaultSelector() as selector:
            for peer in self.peers:
                selector.register(peer.socket, selectors.EVENT_READ, peer)
            ((key, _), *_) = selector.select(PATIENCE)
        peer = key.data
        assert isinstance(peer, Peer)
        return peer, peer.next()

    def answer(self, op: str, value: int = 0) -> Request:
        """Answer the next request."""
        peer, request = self.next()
        peer.reply(op, request.request_id, value)
        return request

    def close(self) -> None:
        """Close everything. Shutting down wakes a thread that waits for a connection."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        for connection in (*self.raw, self.listener):
            connection.close()


@contextlib.contextmanager
def serve(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Run a server for a test."""
    server = Server(context)
    try:
        yield server
    finally:
        server.close()


class Authority:
    """A CA made with openssl, with a server certificate for localhost and 127.0.0.1."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.fail("the TLS tests make their certificates with openssl: install it")
        directory.mkdir()
        self.ca = directory / "ca.pem"
        self._directory = directory
        self._openssl("req", "-x509", "-nodes", *self._key("ca"), "-out", "ca.pem",
                      "-subj", "/CN=test CA", "-days", "2",
                      "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
        self._openssl(
            "req", "-nodes", *self._key("leaf"), "-out", "leaf.csr", "-subj", "/CN=server"
        )
        (directory / "leaf.ext").write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"
            "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\nbasicConstraints=CA:FALSE\n"
        )
        self._openssl("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                      "-CAcreateserial", "-out", "leaf.pem", "-days", "2",
                      "-extfile", "leaf.ext")  # fmt: skip

    def _key(self, name: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", f"{name}.key"]

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments], cwd=self._directory, check=True, capture_output=True
        )

    def server_context(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        """Return the server's side, for exactly that version of TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / "leaf.pem", self._directory / "leaf.key")
        context.minimum_version = context.maximum_version = version
        return context
