"""The asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from types import TracebackType
from typing import Any

from ._broker import BaseBroker
from ._calls import AcquireCall, Grant, ReadyCall, ReleaseCall
from ._errors import TicketingError
from ._settings import Terms, check_key, check_keys, check_terms
from ._shell import Shell
from ._ticket import LOGGER, BaseTicket

__all__ = ["AsyncBroker", "AsyncTicket"]


class _Release:
    """A release under way, and the tasks that wait for it. Cancelling them does not stop it."""

    __slots__ = ("_call", "_loop", "_waiters")

    def __init__(self, shell: Shell, keys: tuple[bytes, ...], token: int) -> None:
        self._loop = shell.loop
        self._waiters: list[asyncio.Future[None]] = []
        self._call = ReleaseCall(keys, token, self._done)
        shell.release(self._call)

    def _done(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> bool | TicketingError:
        """Wait for the outcome."""
        if self._call.outcome is None:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
        assert self._call.outcome is not None
        return self._call.outcome


class AsyncTicket(BaseTicket):
    """A held lock. As an asynchronous context manager it releases at the end of the block.

    A ticket that is dropped without being released is released in the background, with a
    ResourceWarning.
    """

    __slots__ = ("_release", "_shell")

    def __init__(self, keys: tuple[bytes, ...], grant: Grant, broker: AsyncBroker) -> None:
        super().__init__(keys, grant, broker)
        self._shell = broker._shell
        self._release: _Release | None = None

    async def release(self) -> bool:
        """Give the lock back; retried for at most 5 s.

        True: the server confirmed it. False: the lock was not held any more. A second call returns
        the first one's result. When the calling task is cancelled, the release goes on in the
        background.

        Raises:
            ReleaseUnconfirmedError: unknown; the lease ends the lock.
            RejectedError: the server refused; the lease ends the lock.
            ClientCapacityError: too many releases in progress; may be called again.
            ClosedError: the broker is closed; the lease ends the lock.

        """
        outcome = await self._begin_release().wait()
        if isinstance(outcome, TicketingError):
            raise outcome
        return outcome

    def abandon(self) -> None:
        """Begin to release in the background, without waiting for the result.

        Raises what release() raises before anything is sent.
        """
        self._begin_release()

    def _begin_release(self) -> _Release:
        self._home.check()
        if self._release is None:
            self._release = _Release(self._shell, self._keys, self.token)
        return self._release

    async def __aenter__(self) -> AsyncTicket:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._home.is_here():
            return
        outcome: bool | TicketingError
        try:
            outcome = await self.release()
        except TicketingError as error:
            outcome = error
        self._log_exit(outcome)

    def __del__(self) -> None:
        if not self._home.is_here() or self._shell.engine.closed:
            return
        if self._release is not None or self.remaining <= 0:
            return
        loop, keys, token = self._shell.loop, self._keys, self.token
        if not loop.is_closed():
            # The garbage collector may run in any thread.
            loop.call_soon_threadsafe(_release_dropped, self._shell, keys, token)
        self._warn_of_drop()


def _release_dropped(shell: Shell, keys: tuple[bytes, ...], token: int) -> None:
    try:
        _Release(shell, keys, token)
    except TicketingError as error:
        LOGGER.warning("a dropped ticket is left to its lease: %s", error)


class _Acquire(Coroutine[Any, Any, AsyncTicket]):
    """What acquire returns: await it, or use it in an async with statement."""

    __slots__ = ("_coroutine", "_ticket")

    def __init__(self, coroutine: Coroutine[Any, Any, AsyncTicket]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any, /) -> Any:
        return self._coroutine.send(value)

    def throw(self, *arguments: Any) -> Any:
        return self._coroutine.throw(*arguments)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, None, AsyncTicket]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> AsyncTicket:
        self._ticket = await self._coroutine
        return self._ticket

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._ticket.__aexit__(exc_type, exc, traceback)


class AsyncBroker(BaseBroker):
    """An asyncio client of one lock server or cluster.

    It keeps connections open in the background and reconnects for ever. Share one in the whole
    process; make and use it in one running event loop, and close it at the end. One that is
    dropped, its tickets too, closes in the background, with a ResourceWarning.

        async with AsyncBroker("127.0.0.1:5225") as broker:
            async with broker.acquire("order-1234", wait=5, lease=30) as ticket:
                ...

    It belongs to that process. In a fork every call on it and its tickets raises ClosedError at
    once, and closing or dropping them does nothing: make a broker in the child, in an event loop of
    the child's own.
    """

    def _start(self) -> None:
        self._shell = Shell(self._settings, self._timing)
        self._shell.start()

    def acquire(self, key: str, *, wait: float, lease: float, budget: float = 0) -> _Acquire:
        """Wait in the key's queue for the lock: await it, or use it in an async with statement.

        Not re-entrant: the holder asking again queues like anyone else. When the calling task is
        cancelled, a grant that comes too late is released in the background.

        Args:
            key: 1-128 bytes of UTF-8 without space, LF or CR.
            wait: longest time to queue, 0-255 s, rounded up to whole seconds; 0 is one immediate
                try.
            lease: how long the lock lasts unless it is released: whole seconds, 1-250.
            budget: seconds that the work needs at least: a grant with less left is released and
                reported as InsufficientLeaseError.

        Raises:
            TicketingError: see its subclasses for what each says about the lock.

        """
        return _Acquire(self._acquire(lambda: (check_key(key),), wait, lease, budget))

    def acquire_set(
        self, keys: Iterable[str], *, wait: float, lease: float, budget: float = 0
    ) -> _Acquire:
        """Acquire 1-16 keys, all or nothing, under one token.

        Order and duplicates do not matter, and sets of several callers cannot deadlock. Otherwise
        it is like acquire().
        """
        return _Acquire(self._acquire(lambda: check_keys(keys), wait, lease, budget))

    async def _acquire(
        self, keys: Callable[[], tuple[bytes, ...]], wait: float, lease: float, budget: float
    ) -> AsyncTicket:
        self._home.check()
        checked = keys()
        terms: Terms = check_terms(wait, lease, budget)
        shell = self._shell
        future = shell.loop.create_future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        call = AcquireCall(checked, terms, done)
        shell.acquire(call)
        try:
            await future
        except asyncio.CancelledError:
            shell.disown(call)
            raise
        if isinstance(call.outcome, Grant):
            return AsyncTicket(checked, call.outcome, self)
        assert call.outcome is not None
        raise call.outcome

    async def ready(self, timeout: float) -> None:
        """Wait until a connection is usable, at most that many seconds.

        Raises:
            NotConnectedError: no server was reachable.
            UnauthorizedError: the server refused the token.

        """
        self._home.check()
        shell = self._shell
        future = shell.loop.create_future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        call = ReadyCall(timeout, done)
        shell.ready(call)
        try:
            await future
        except asyncio.CancelledError:
            shell.cancel(call)
            raise
        if isinstance(call.outcome, TicketingError):
            raise call.outcome

    def __del__(self) -> None:
        shell: Shell | None = getattr(self, "_shell", None)  # None: a setting was refused.
        if shell is None or shell.engine.closing or not self._home.is_here():
            return
        if not shell.loop.is_closed():
            # The garbage collector may run in any thread.
            shell.loop.call_soon_threadsafe(shell.begin_close)
        self._warn_of_drop()

    async def close(self) -> None:
        """Refuse new calls, let releases finish for at most 5 s, and end every connection.

        Acquires in progress end with ClosedError, or with IndeterminateError if they may have been
        sent. Idempotent.
        """
        if self._home.is_here():
            await self._shell.close()

    async def __aenter__(self) -> AsyncBroker:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
