"""The blocking client: the same engine and shell, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

from . import _limits as limits
from ._broker import BaseBroker
from ._calls import AcquireCall, Grant, ReadyCall, ReleaseCall
from ._errors import ClientCapacityError, TicketingError
from ._home import Home
from ._settings import Settings, Terms, check_key, check_keys, check_terms
from ._shell import Shell
from ._ticket import BaseTicket

__all__ = ["Broker", "Cancellation", "Ticket"]


class Cancellation:
    """Lets another thread cancel acquires. Safe for concurrent use; cannot be undone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: set[Callable[[], None]] = set()

    def cancel(self) -> None:
        """End the acquires that were given this object, now and later, with CancelledError."""
        with self._lock:
            self._cancelled = True
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    @contextlib.contextmanager
    def _watch(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call that when cancelled, at once if it is so already."""
        with self._lock:
            self._callbacks.add(callback)
            cancelled = self._cancelled
        try:
            if cancelled:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.discard(callback)


class _Worker:
    """A thread that runs a shell, and the way into it."""

    def __init__(self, settings: Settings, timing: limits.Timing, home: Home) -> None:
        self._settings = settings
        self._timing = timing
        self.home = home
        self._inbox: deque[Callable[[], None]] = deque()
        self._woken = False
        self._ended = False
        #: Somebody has closed the broker.
        self.stopping = False
        started = threading.Event()
        # A daemon: a program that forgets to close the broker can end all the same.
        self._thread = threading.Thread(
            target=self._main, args=(started,), name="ticketing", daemon=True
        )
        self._thread.start()
        started.wait()

    def _main(self, started: threading.Event) -> None:
        asyncio.run(self._run(started))
        # What comes from here on finds the engine closed, whichever thread carries it out.
        self._ended = True
        self._carry_out()

    async def _run(self, started: threading.Event) -> None:
        self.shell = Shell(self._settings, self._timing)
        self.shell.start()
        self._stop = asyncio.Event()
        started.set()
        await self._stop.wait()
        await self.shell.close()

    def post(self, work: Callable[[], None]) -> None:
        """Have the thread carry that out. A fork has no such thread, and nothing to do for it."""
        if not self.home.is_here():
            return
        self._inbox.append(work)
        if self._ended:
            self._carry_out()
        elif not self._woken:
            self._woken = True
            # RuntimeError: the loop has just closed, and the thread looks once more.
            with contextlib.suppress(RuntimeError):
                self.shell.loop.call_soon_threadsafe(self._carry_out)

    def _carry_out(self) -> None:
        self._woken = False  # First: what is appended from now on wakes again.
        with contextlib.suppress(IndexError):
            while True:
                self._inbox.popleft()()

    def stop(self) -> None:
        """Close the shell, without waiting for the thread's end."""
        self.stopping = True
        self.post(self._stop.set)

    def close(self) -> None:
        """Close the shell and wait for the thread's end."""
        if self.home.is_here():
            self.stop()
            self._thread.join()

    @property
    def ended(self) -> bool:
        """Tell whether the thread has ended."""
        return self._ended


class _Waiter:
    """Blocks a thread until a call has its outcome."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def done(self) -> None:
        """Wake the thread."""
        self._lock.release()

    def wait(self) -> None:
        """Block. Signals are handled meanwhile."""
        self._lock.acquire()
        self._lock.release()


class _Acquire:
    """An acquire, from any thread to the worker's."""

    __slots__ = ("_begun", "_call", "_waiter", "_worker")

    def __init__(self, worker: _Worker, keys: tuple[bytes, ...], terms: Terms) -> None:
        self._worker = worker
        self._waiter = _Waiter()
        self._call = AcquireCall(keys, terms, self._waiter.done)
        self._begun = False

    def run(self, cancellation: Cancellation | None) -> Grant:
        """Block until the outcome is there."""
        self._worker.post(self._begin)
        if cancellation is None:
            self._waiter.wait()
        else:
            with cancellation._watch(lambda: self._worker.post(self._cancel)):
                self._waiter.wait()
        if isinstance(self._call.outcome, Grant):
            return self._call.outcome
        assert self._call.outcome is not None
        raise self._call.outcome

    def disown(self) -> None:
        """Release what is granted, or will be: the caller is gone."""
        self._worker.post(self._disown)

    # In the worker's thread.

    def _begin(self) -> None:
        try:
            self._worker.shell.acquire(self._call)
        except TicketingError as error:
            self._call.outcome = error
            self._waiter.done()
        else:
            self._begun = True

    def _cancel(self) -> None:
        if self._begun:
            self._worker.shell.cancel(self._call)

    def _disown(self) -> None:
        if self._begun:
            self._worker.shell.disown(self._call)


class _Release:
    """A release, from any thread to the worker's, with any number of threads waiting for it."""

    __slots__ = ("_call", "_event", "_worker")

    def __init__(self, worker: _Worker, keys: tuple[bytes, ...], token: int) -> None:
        self._event = threading.Event()
        self._call = ReleaseCall(keys, token, self._event.set)
        self._worker = worker
        worker.post(self._begin)

    def _begin(self) -> None:
        try:
            self._worker.shell.release(self._call)
        except TicketingError as error:
            self._call.outcome = error
            self._event.set()

    def wait(self) -> bool | TicketingError:
        """Block until the outcome is there."""
        self._event.wait()
        assert self._call.outcome is not None
        return self._call.outcome


class Ticket(BaseTicket):
    """A held lock. As a context manager it releases at the end of the block.

    Safe for concurrent use. A ticket that is dropped without being released is released in the
    background, with a ResourceWarning.
    """

    __slots__ = ("_lock", "_release", "_worker")

    def __init__(self, keys: tuple[bytes, ...], grant: Grant, broker: Broker) -> None:
        super().__init__(keys, grant, broker)
        self._worker = broker._worker
        self._lock = threading.Lock()
        self._release: _Release | None = None

    def release(self) -> bool:
        """Give the lock back; retried for at most 5 s.

        True: the server confirmed it. False: the lock was not held any more. A second call returns
        the first one's result.

        Raises:
            ReleaseUnconfirmedError: unknown; the lease ends the lock.
            RejectedError: the server refused; the lease ends the lock.
            ClientCapacityError: too many releases in progress; may be called again.
            ClosedError: the broker is closed; the lease ends the lock.

        """
        outcome = self._begin_release().wait()
        if isinstance(outcome, ClientCapacityError):
            self._release = None
        if isinstance(outcome, TicketingError):
            raise outcome
        return outcome

    def abandon(self) -> None:
        """Begin to release in the background, without waiting for the result."""
        self._begin_release()

    def _begin_release(self) -> _Release:
        self._home.check()  # First: a thread that was not forked may hold the lock.
        with self._lock:
            if self._release is None:
                self._release = _Release(self._worker, self._keys, self.token)
            return self._release

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._home.is_here():
            self._log_exit(self._begin_release().wait())

    def __del__(self) -> None:
        if not self._home.is_here() or self._worker.ended:
            return
        if self._release is None and self.remaining > 0:
            _Release(self._worker, self._keys, self.token)
            self._warn_of_drop()


class Broker(BaseBroker):
    """A blocking client of one lock server or cluster.

    It keeps connections open in a thread of its own and reconnects for ever. Safe for concurrent
    use: share one in the whole process, and close it at the end. One that is dropped, its tickets
    too, closes in the background, with a ResourceWarning.

        with Broker("127.0.0.1:5225") as broker:
            with broker.acquire("order-1234", wait=5, lease=30) as ticket:
                ...

    It belongs to that process. In a fork (os.fork, multiprocessing's start method "fork") every
    call on it and its tickets raises ClosedError at once, and closing or dropping them does
    nothing: make a broker in the child.
    """

    def _start(self) -> None:
        self._worker = _Worker(self._settings, self._timing, self._home)

    def acquire(
        self,
        key: str,
        *,
        wait: float,
        lease: float,
        budget: float = 0,
        cancellation: Cancellation | None = None,
    ) -> Ticket:
        """Wait in the key's queue and return the lock when its turn comes.

        Not re-entrant: the holder asking again queues like anyone else. When the calling thread is
        interrupted (KeyboardInterrupt), a grant that comes too late is released in the background.

        Args:
            key: 1-128 bytes of UTF-8 without space, LF or CR.
            wait: longest time to queue, 0-255 s, rounded up to whole seconds; 0 is one immediate
                try.
            lease: how long the lock lasts unless it is released: whole seconds, 1-250.
            budget: seconds that the work needs at least: a grant with less left is released and
                reported as InsufficientLeaseError.
            cancellation: lets another thread end the call with CancelledError.

        Raises:
            TicketingError: see its subclasses for what each says about the lock.

        """
        return self._acquire((check_key(key),), check_terms(wait, lease, budget), cancellation)

    def acquire_set(
        self,
        keys: Iterable[str],
        *,
        wait: float,
        lease: float,
        budget: float = 0,
        cancellation: Cancellation | None = None,
    ) -> Ticket:
        """Acquire 1-16 keys, all or nothing, under one token.

        Order and duplicates do not matter, and sets of several callers cannot deadlock. Otherwise
        it is like acquire().
        """
        return self._acquire(check_keys(keys), check_terms(wait, lease, budget), cancellation)

    def _acquire(
        self, keys: tuple[bytes, ...], terms: Terms, cancellation: Cancellation | None
    ) -> Ticket:
        self._home.check()
        acquire = _Acquire(self._worker, keys, terms)
        try:
            return Ticket(keys, acquire.run(cancellation), self)
        except BaseException:
            acquire.disown()  # The thread may have been interrupted anywhere.
            raise

    def ready(self, timeout: float) -> None:
        """Wait until a connection is usable, at most that many seconds.

        Raises:
            NotConnectedError: no server was reachable.
            UnauthorizedError: the server refused the token.

        """
        self._home.check()
        waiter, worker = _Waiter(), self._worker
        call = ReadyCall(timeout, waiter.done)

        def begin() -> None:
            try:
                worker.shell.ready(call)
            except TicketingError as error:
                call.outcome = error
                waiter.done()

        worker.post(begin)
        waiter.wait()
        if isinstance(call.outcome, TicketingError):
            raise call.outcome

    def __del__(self) -> None:
        worker: _Worker | None = getattr(self, "_worker", None)  # None: a setting was refused.
        if worker is not None and not worker.stopping and self._home.is_here():
            worker.stop()
            self._warn_of_drop()

    def close(self) -> None:
        """Refuse new calls, let releases finish for at most 5 s, and end every connection.

        Acquires in progress end with ClosedError, or with IndeterminateError if they may have been
        sent. Idempotent.
        """
        self._worker.close()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
