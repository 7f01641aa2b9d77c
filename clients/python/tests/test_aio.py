"""The asyncio client against a scripted server on a real socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

import ticketing
from scripted import Peer, QuickAsyncBroker, Server, serve
from support import PATIENCE, Request
from ticketing import AsyncBroker, AsyncTicket
from ticketing._link import Phase

T = TypeVar("T")


class Bench:
    """A broker with its two connections, and the server's ends of them."""

    def __init__(self, server: Server, broker: AsyncBroker) -> None:
        self.server = server
        self.broker = broker

    async def accept(self) -> None:
        for _ in range(2):
            await self.call(self.server.accept)
        while not all(link.phase is Phase.USABLE for link in self.broker._shell.engine.links):
            await asyncio.sleep(0.001)

    async def call(self, work: Callable[[], T]) -> T:
        """Do the server's part, which blocks."""
        return await asyncio.wait_for(asyncio.to_thread(work), PATIENCE)

    async def next(self) -> tuple[Peer, Request]:
        """Take the next request, on whichever connection it comes."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Peer] = loop.create_future()

        def readable(peer: Peer) -> None:
            if not ready.done():
                ready.set_result(peer)

        for peer in self.server.peers:
            loop.add_reader(peer.socket, readable, peer)
        try:
            found = await asyncio.wait_for(ready, PATIENCE)
        finally:
            for peer in self.server.peers:
                loop.remove_reader(peer.socket)
        return found, found.next()

    async def answer(self, op: str, value: int = 0) -> Request:
        """Answer the next request."""
        peer, request = await self.next()
        peer.reply(op, request.request_id, value)
        return request


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    with serve() as server:
        async with QuickAsyncBroker(server.address) as broker:
            table = Bench(server, broker)
            await table.accept()
            yield table
            for peer in server.peers:
                peer.socket.close()


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with bench() as table:
            await asyncio.wait_for(test(table), PATIENCE)

    asyncio.run(main(), debug=True)


def test_the_context_managers() -> None:
    async def test(table: Bench) -> None:
        async def work() -> int:
            async with table.broker.acquire("k", wait=5, lease=30) as ticket:
                assert 29 < ticket.remaining <= 30
                assert ticket.key == "k"
                return ticket.token

        task = asyncio.create_task(work())
        assert (await table.answer("A", 9)).wait == 5
        assert (await table.answer("R")).token == 9
        assert await task == 9

    run(test)


def test_acquire_is_a_coroutine_for_tasks_and_gather() -> None:
    async def test(table: Bench) -> None:
        one = asyncio.create_task(table.broker.acquire("a", wait=5, lease=30))
        two = asyncio.gather(table.broker.acquire_set(["c", "b"], wait=5, lease=30))
        for _ in range(2):
            peer, request = await table.next()
            peer.reply(request.op, request.request_id, len(request.keys))
        ticket, (pair,) = await one, await two
        assert (ticket.token, pair.token, pair.keys) == (1, 2, ("b", "c"))
        for held in (ticket, pair):
            held.abandon()
            peer, request = await table.next()
            peer.reply(request.op, request.request_id)

    run(test)


def test_cancelling_a_task_releases_the_late_grant() -> None:
    async def test(table: Bench) -> None:
        task = asyncio.create_task(table.broker.acquire("k", wait=5, lease=30))
        peer, request = await table.next()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        peer.reply("A", request.request_id, 7)
        assert (await table.answer("R")).token == 7

    run(test)


def test_a_timeout_scope_releases_the_late_grant() -> None:
    async def test(table: Bench) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(table.broker.acquire("k", wait=5, lease=30), 0.01)
        peer, request = await table.next()
        peer.reply("A", request.request_id, 7)
        assert (await table.answer("R")).token == 7

    run(test)


def test_cancelling_just_after_the_grant_releases_it() -> None:
    async def test(table: Bench) -> None:
        task = asyncio.create_task(table.broker.acquire("k", wait=5, lease=30))
        peer, request = await table.next()
        engine = table.broker._shell.engine
        peer.reply("A", request.request_id, 7)
        while engine._acquires:
            # The reply is taken in between; the task has not run yet when it is cancelled.
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            task.result().abandon()
        assert (await table.answer("R")).token == 7

    run(test)


async def hold(table: Bench, token: int = 41) -> AsyncTicket:
    task = asyncio.create_task(table.broker.acquire("k", wait=5, lease=30))
    await table.answer("A", token)
    return await task


def test_release_outcomes() -> None:
    async def test(table: Bench) -> None:
        for op, outcome in (("R", True), ("N", False)):
            ticket = await hold(table)
            task = asyncio.create_task(ticket.release())
            await table.answer(op)
            assert await task is outcome
            assert await ticket.release() is outcome
        ticket = await hold(table)
        task = asyncio.create_task(ticket.release())
        await table.answer("E", 6)
        with pytest.raises(ticketing.RejectedError):
            await task

    run(test)


def test_cancelling_a_release_does_not_stop_it() -> None:
    async def test(table: Bench) -> None:
        ticket = await hold(table)
        task = asyncio.create_task(ticket.release())
        peer, request = await table.next()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        peer.reply("R", request.request_id)
        assert await ticket.release() is True

    run(test)


def test_a_dropped_ticket_is_released_with_a_warning() -> None:
    async def test(table: Bench) -> None:
        tickets = [await hold(table)]
        await asyncio.sleep(0)  # The loop's wake-up call refers to the task and so to its result.
        with pytest.warns(ResourceWarning, match="without being released"):
            tickets.clear()
        assert (await table.answer("R")).token == 41

    run(test)


def test_a_dropped_broker_closes_after_its_tickets() -> None:
    async def main() -> None:
        with serve() as server:
            broker: list[AsyncBroker] = [QuickAsyncBroker(server.address)]
            table = Bench(server, broker[0])
            await table.accept()
            tickets = [await hold(table)]
            await asyncio.sleep(0)  # As above.
            del table
            broker.clear()
            tickets[0].abandon()
            with pytest.warns(ResourceWarning, match="without being closed"):
                tickets.clear()
            assert (await asyncio.to_thread(server.answer, "R")).token == 41
            for peer in server.peers:
                await asyncio.to_thread(peer.expect_closed)

    asyncio.run(main())


def test_what_a_with_block_cannot_raise_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(table: Bench) -> None:
        async def work() -> None:
            async with table.broker.acquire("k", wait=5, lease=30):
                pass

        task = asyncio.create_task(work())
        await table.answer("A", 3)
        await table.answer("N")
        with caplog.at_level(logging.WARNING, "ticketing"):
            await task
        assert "was not held any more" in caplog.text

    run(test)


def test_the_error_of_the_block_passes_and_the_lock_is_released() -> None:
    async def test(table: Bench) -> None:
        async def work() -> None:
            async with table.broker.acquire("k", wait=5, lease=30):
                raise LookupError

        task = asyncio.create_task(work())
        await table.answer("A", 3)
        await table.answer("R")
        with pytest.raises(LookupError):
            await task

    run(test)


def test_reconnects() -> None:
    async def test(table: Bench) -> None:
        for _ in range(3):
            old = table.server.peers.pop(0)
            old.socket.close()
            await table.call(table.server.accept)
        ticket = await hold(table)
        task = asyncio.create_task(ticket.release())
        await table.answer("R")
        assert await task

    run(test)


def test_close_ends_acquires_and_lets_releases_finish() -> None:
    async def test(table: Bench) -> None:
        ticket = await hold(table)
        pending = asyncio.create_task(table.broker.acquire("k", wait=5, lease=30))
        await table.next()
        releasing = asyncio.create_task(ticket.release())
        peer, request = await table.next()
        closing = asyncio.create_task(table.broker.close())
        with pytest.raises(ticketing.IndeterminateError):
            await pending
        with pytest.raises(ticketing.ClosedError):
            await table.broker.acquire("k", wait=5, lease=30)
        peer.reply("R", request.request_id)
        await closing
        assert await releasing
        await table.broker.close()
        left = [task for task in asyncio.all_tasks() if "ticketing" in repr(task.get_coro())]
        assert left == []
        for peer in table.server.peers:
            peer.expect_closed()

    run(test)


def test_not_connected_and_ready() -> None:
    async def main() -> None:
        with serve() as server:
            address = server.address
        async with QuickAsyncBroker(address) as broker:
            with pytest.raises(ticketing.NotConnectedError):
                await broker.ready(0.05)

    asyncio.run(main())
