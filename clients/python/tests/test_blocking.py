"""The blocking client against a scripted server on a real socket."""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest

import ticketing
from scripted import Peer, QuickBroker, Server, serve
from support import PATIENCE, Request
from ticketing import Broker, Cancellation, Ticket
from ticketing._blocking import _Waiter
from ticketing._link import Phase

T = TypeVar("T")


class Bench:
    """A broker with its two connections, the server's ends of them, and threads to call it."""

    def __init__(self, server: Server, broker: Broker, pool: ThreadPoolExecutor) -> None:
        self.server = server
        self.broker = broker
        self.pool = pool

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Call something that blocks."""
        return self.pool.submit(work)

    def acquire(self, cancellation: Cancellation | None = None) -> Future[Ticket]:
        return self.start(
            lambda: self.broker.acquire("k", wait=5, lease=30, cancellation=cancellation)
        )

    def next(self) -> tuple[Peer, Request]:
        return self.server.next()

    def answer(self, op: str, value: int = 0) -> Request:
        return self.server.answer(op, value)

    def hold(self, token: int = 41) -> Ticket:
        call = self.acquire()
        self.answer("A", token)
        return call.result(PATIENCE)


@pytest.fixture
def bench() -> Iterator[Bench]:
    before = threading.active_count()
    with serve() as server, ThreadPoolExecutor() as pool:
        with QuickBroker(server.address) as broker:
            table = Bench(server, broker, pool)
            for _ in range(2):
                server.accept()
            broker.ready(PATIENCE)
            links = broker._worker.shell.engine.links
            while not all(link.phase is Phase.USABLE for link in links):
                broker.ready(PATIENCE)
            yield table
            for peer in server.peers:
                peer.socket.close()
    assert threading.active_count() == before


def test_the_context_managers(bench: Bench) -> None:
    def work() -> int:
        with bench.broker.acquire("k", wait=5, lease=30) as ticket:
            return ticket.token

    call = bench.start(work)
    assert bench.answer("A", 9).wait == 5
    assert bench.answer("R").token == 9
    assert call.result(PATIENCE) == 9


def test_a_set(bench: Bench) -> None:
    call = bench.start(lambda: bench.broker.acquire_set(["b", "a"], wait=0, lease=1))
    assert bench.answer("S", 3).keys == (b"a", b"b")
    ticket = call.result(PATIENCE)
    ticket.abandon()
    assert bench.answer("G").token == 3
    assert ticket.release() is True


def test_another_thread_cancels(bench: Bench) -> None:
    cancellation = Cancellation()
    call = bench.acquire(cancellation)
    peer, request = bench.next()
    cancellation.cancel()
    with pytest.raises(ticketing.CancelledError):
        call.result(PATIENCE)
    peer.reply("A", request.request_id, 7)
    assert bench.answer("R").token == 7
    with pytest.raises(ticketing.CancelledError):
        bench.broker.acquire("k", wait=5, lease=30, cancellation=cancellation)


def test_cancelling_after_the_grant_leaves_the_ticket_alone(bench: Bench) -> None:
    cancellation = Cancellation()
    call = bench.acquire(cancellation)
    bench.answer("A", 7)
    ticket = call.result(PATIENCE)
    cancellation.cancel()
    release = bench.start(ticket.release)
    bench.answer("R")
    assert release.result(PATIENCE) is True


def test_an_interrupted_thread_releases_the_late_grant(bench: Bench) -> None:
    class InterruptedError(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptedError

    main = threading.main_thread().ident
    assert main is not None
    old = signal.signal(signal.SIGUSR1, interrupt)
    try:

        def server() -> tuple[Peer, Request]:
            taken = bench.next()
            signal.pthread_kill(main, signal.SIGUSR1)
            return taken

        served = bench.start(server)
        with pytest.raises(InterruptedError):
            bench.broker.acquire("k", wait=5, lease=30)
        peer, request = served.result(PATIENCE)
        peer.reply("A", request.request_id, 7)
        assert bench.answer("R").token == 7
    finally:
        signal.signal(signal.SIGUSR1, old)


@pytest.mark.parametrize(("op", "outcome"), [("R", True), ("N", False)])
def test_release_outcomes(bench: Bench, op: str, outcome: bool) -> None:
    ticket = bench.hold()
    call = bench.start(ticket.release)
    bench.answer(op)
    assert call.result(PATIENCE) is outcome
    assert ticket.release() is outcome


def test_release_refused(bench: Bench) -> None:
    ticket = bench.hold()
    call = bench.start(ticket.release)
    bench.answer("E", 6)
    with pytest.raises(ticketing.RejectedError):
        call.result(PATIENCE)


def test_a_dropped_ticket_is_released_with_a_warning(bench: Bench) -> None:
    call = bench.acquire()
    bench.answer("A", 41)
    call.result(PATIENCE)
    with pytest.warns(ResourceWarning, match="without being released"):
        del call
    assert bench.answer("R").token == 41


def test_a_dropped_broker_closes_after_its_tickets() -> None:
    before = threading.active_count()
    with serve() as server, ThreadPoolExecutor(1) as pool:
        broker = QuickBroker(server.address)
        for _ in range(2):
            server.accept()
        answered = pool.submit(server.answer, "A", 41)
        ticket = broker.acquire("k", wait=5, lease=30)
        answered.result(PATIENCE)
        thread = broker._worker._thread
        del broker
        assert thread.is_alive()  # The ticket needs it.
        ticket.abandon()
        with pytest.warns(ResourceWarning, match="without being closed"):
            del ticket
        assert server.answer("R").token == 41
        thread.join(PATIENCE)
    assert threading.active_count() == before


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickle.dumps])
def test_nothing_can_be_copied(bench: Bench, clone: Callable[[object], object]) -> None:
    ticket = bench.hold()
    for original in (ticket, bench.broker):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            clone(original)
    release = bench.start(ticket.release)
    bench.answer("R")
    assert release.result(PATIENCE) is True


def test_the_constructor_shows_public_names_only() -> None:
    with pytest.raises(TypeError, match=r"^Broker\.__init__\(\) .*'tokn'"):
        Broker("127.0.0.1:5225", tokn="t")  # type: ignore[call-arg]
    parameters = list(inspect.signature(Broker).parameters)
    assert parameters[0] == "addresses"
    assert not [name for name in parameters if name.startswith("_")]


def test_close_ends_acquires_and_lets_releases_finish(bench: Bench) -> None:
    ticket = bench.hold()
    other = bench.hold(42)
    pending = bench.acquire()
    bench.next()
    releasing = bench.start(ticket.release)
    peer, request = bench.next()
    closing = bench.start(bench.broker.close)
    with pytest.raises(ticketing.IndeterminateError):
        pending.result(PATIENCE)
    for call in (bench.acquire(), bench.start(other.release)):
        with pytest.raises(ticketing.ClosedError):
            call.result(PATIENCE)
    peer.reply("R", request.request_id)
    closing.result(PATIENCE)
    assert releasing.result(PATIENCE) is True
    # Calls after the thread has ended.
    bench.broker.close()
    with pytest.raises(ticketing.ClosedError):
        bench.broker.acquire("k", wait=5, lease=30)
    with pytest.raises(ticketing.ClosedError):
        bench.broker.ready(1)


def test_a_thread_that_wakes_up_after_the_end_gets_its_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = bench.broker._worker
    wait = _Waiter.wait

    def wait_for_the_end(waiter: _Waiter) -> None:
        wait(waiter)
        worker._thread.join(PATIENCE)

    monkeypatch.setattr(_Waiter, "wait", wait_for_the_end)
    call = bench.acquire()
    bench.next()
    bench.broker.close()
    with pytest.raises(ticketing.IndeterminateError):
        call.result(PATIENCE)


def test_not_connected() -> None:
    with serve() as server:
        address = server.address
    with QuickBroker(address) as broker, pytest.raises(ticketing.NotConnectedError):
        broker.ready(0.05)


def test_many_threads(bench: Bench) -> None:
    callers, rounds = 16, 20
    stop = threading.Event()

    def grant(peer: Peer) -> None:
        with contextlib.suppress(AssertionError, OSError):
            while not stop.is_set():
                request = peer.next()
                peer.reply(request.op, request.request_id, 1)

    def caller(number: int) -> int:
        for _ in range(rounds):
            with bench.broker.acquire(f"k{number}", wait=5, lease=30):
                pass
        return rounds

    with ThreadPoolExecutor(max_workers=callers + 2) as pool:
        for peer in bench.server.peers:
            pool.submit(grant, peer)
        done = [pool.submit(caller, number) for number in range(callers)]
        assert sum(call.result(PATIENCE) for call in done) == callers * rounds
        stop.set()
        bench.broker.close()
