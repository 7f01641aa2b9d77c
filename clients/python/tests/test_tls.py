"""TLS: the right certificate is accepted, every other one is refused."""

from __future__ import annotations

import contextlib
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ticketing
from scripted import Authority, QuickBroker, Server, serve
from support import PATIENCE
from ticketing import Broker

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("own") / "ca")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other") / "ca")


def accepts(
    authority: Authority, version: ssl.TLSVersion, trust: str | Path | ssl.SSLContext
) -> None:
    with serve(authority.server_context(version)) as server, ThreadPoolExecutor() as pool:
        peers = [pool.submit(server.accept) for _ in range(2)]
        with QuickBroker(server.address, ssl=trust) as broker:
            broker.ready(PATIENCE)
            peer = peers[0].result(PATIENCE)
            assert isinstance(peer.socket, ssl.SSLSocket)
            assert peer.socket.version() == {TLS12: "TLSv1.2", TLS13: "TLSv1.3"}[version]
            peers[1].result(PATIENCE)


def test_own_ca_over_tls_1_2(own: Authority) -> None:
    accepts(own, TLS12, own.ca)


def test_own_ca_over_tls_1_3(own: Authority) -> None:
    accepts(own, TLS13, own.ca)


def test_own_context(own: Authority) -> None:
    accepts(own, TLS13, ssl.create_default_context(cafile=own.ca))


def refuses(authority: Authority, reason: str, **settings: object) -> None:
    def handshake(server: Server) -> None:
        context = authority.server_context(TLS13)
        with contextlib.suppress(OSError):
            while True:
                raw = server.accept_raw()
                with contextlib.suppress(OSError):
                    context.wrap_socket(raw, server_side=True).recv(1)

    with ThreadPoolExecutor() as pool, serve() as server:
        pool.submit(handshake, server)
        with QuickBroker(server.address, **settings) as broker:  # type: ignore[arg-type]
            with pytest.raises(ticketing.NotConnectedError, match=reason):
                broker.ready(1)


def test_a_wrong_ca_is_refused(own: Authority, other: Authority) -> None:
    refuses(own, "certificate verify failed", ssl=other.ca)


def test_a_private_ca_is_no_system_root(own: Authority) -> None:
    refuses(own, "certificate verify failed", ssl=True)


def test_a_wrong_host_name_is_refused(own: Authority) -> None:
    refuses(own, "Hostname mismatch", ssl=own.ca, server_hostname="elsewhere.example")


def test_a_ca_file_that_is_none(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    for path in (empty, tmp_path / "absent.pem"):
        with pytest.raises(ticketing.InvalidInputError):
            Broker("127.0.0.1:5225", ssl=path)
