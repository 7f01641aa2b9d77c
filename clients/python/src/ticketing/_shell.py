"""Moves bytes between an engine and asyncio. Whatever is decided is decided by the engine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from time import monotonic

from ._calls import AcquireCall, ReadyCall, ReleaseCall
from ._engine import Engine
from ._limits import Timing
from ._link import Action, Link, Phase
from ._settings import Settings


class _Connection(asyncio.Protocol):
    """One TCP (and TLS) connection of a link."""

    def __init__(self, shell: Shell, link: Link, epoch: int) -> None:
        self._shell = shell
        self._link = link
        self._epoch = epoch
        self._paused = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # What the kernel does not take yet stays queued in the engine, provably unsent.
        # Not 0: asyncio's TLS transport pauses when the buffer is as full as the limit.
        transport.set_write_buffer_limits(high=1, low=0)
        self._shell.attach(self._link, self._epoch, self)

    def data_received(self, data: bytes) -> None:
        self._link.received(self._epoch, data, monotonic())
        self._shell.pump_soon()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.write()

    def connection_lost(self, error: Exception | None) -> None:
        self._shell.detach(self._link, self)
        reason = str(error) if error else "the server closed the connection"
        self._link.lost(self._epoch, reason, monotonic())
        self._shell.pump_soon()

    def write(self) -> None:
        """Write the link's output while the socket takes it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while not self._paused:
            data = self._link.output(self._epoch, monotonic())
            if not data:
                return
            transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Shell:
    """Runs an engine in the current event loop."""

    def __init__(self, settings: Settings, timing: Timing) -> None:
        """Belong to the running loop. Nothing happens before start()."""
        self.loop = asyncio.get_running_loop()
        self.engine = Engine(settings, timing, self._engine_closed)
        self._settings = settings
        self._connections: dict[Link, _Connection] = {}
        self._live: set[_Connection] = set()
        self._none_live = asyncio.Event()
        self._none_live.set()
        self._connecting: dict[Link, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._pumping = False
        self._ended = asyncio.Event()

    def start(self) -> None:
        """Begin to connect."""
        self.engine.start(monotonic())
        self.pump_soon()

    # Calls. Each may end at once, later, or with an exception if there is no room for it.

    def acquire(self, call: AcquireCall) -> None:
        """Begin an acquire."""
        self.engine.acquire(call, monotonic())
        self.pump_soon()

    def release(self, call: ReleaseCall) -> None:
        """Begin a release."""
        self.engine.release(call, monotonic())
        self.pump_soon()

    def ready(self, call: ReadyCall) -> None:
        """Begin to wait for a usable connection."""
        self.engine.ready(call, monotonic())
        self.pump_soon()

    def cancel(self, call: AcquireCall | ReadyCall) -> None:
        """Give a call up, unless it has its outcome."""
        call.cancel()
        self.pump_soon()

    def disown(self, call: AcquireCall) -> None:
        """Give an acquire up, and release what it has been granted."""
        call.disown(monotonic())
        self.pump_soon()

    def begin_close(self) -> None:
        """Close the engine; what it still has to do goes on in the loop."""
        self.engine.close(monotonic())
        self.pump_soon()

    async def close(self) -> None:
        """Close the engine and wait until no connection and no task is left."""
        self.begin_close()
        await self._ended.wait()
        tasks = list(self._connecting.values())
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._none_live.wait()
        if self._timer is not None:
            self._timer.cancel()

    # Connections.

    def attach(self, link: Link, epoch: int, connection: _Connection) -> None:
        """Take a connection, unless the link has given it up meanwhile."""
        self._live.add(connection)
        self._none_live.clear()
        if link.epoch == epoch and link.phase is Phase.HANDSHAKE:
            self._connections[link] = connection
        else:
            connection.abort()

    def detach(self, link: Link, connection: _Connection) -> None:
        """Forget a connection that has ended."""
        self._live.discard(connection)
        if not self._live:
            self._none_live.set()
        if self._connections.get(link) is connection:
            del self._connections[link]

    # The pump.

    def pump_soon(self) -> None:
        """Carry out what the engine asks for, once everything that is ready has run.

        So the requests of all tasks that run in between leave in one write.
        """
        # A thread that woke up late may still give something up when the loop has ended.
        if not self._pumping and not self.loop.is_closed():
            self._pumping = True
            self.loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        engine = self.engine
        while engine.writable or engine.actions:
            writable, engine.writable = engine.writable, set()
            for link in writable:
                connection = self._connections.get(link)
                if connection is not None:
                    connection.write()
            actions, engine.actions = engine.actions, []
            for action, link in actions:
                self._act(action, link)
        self._arm()

    def _arm(self) -> None:
        """Have the loop come back at the next deadline. Too early is harmless."""
        at = self.engine.timers.next()
        if at is None or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self.loop.call_at(self.loop.time() + at - monotonic(), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.engine.tick(monotonic())
        self._pump()

    def _act(self, action: Action, link: Link) -> None:
        if action is Action.CONNECT:
            task = self.loop.create_task(self._connect(link, link.epoch))
            self._connecting[link] = task
            task.add_done_callback(lambda task: self._connect_done(link, task))
        elif (connection := self._connections.pop(link, None)) is not None:
            connection.abort()
        elif (connecting := self._connecting.get(link)) is not None:
            connecting.cancel()

    def _connect_done(self, link: Link, task: asyncio.Task[None]) -> None:
        if self._connecting.get(link) is task:
            del self._connecting[link]

    def _engine_closed(self) -> None:
        self._ended.set()

    # Connecting.

    async def _connect(self, link: Link, epoch: int) -> None:
        settings = self._settings
        connection = _Connection(self, link, epoch)
        try:
            tcp = await self._dial(link)
            link.connected(epoch, monotonic())
            self.pump_soon()
            if settings.ssl is None:
                await self.loop.create_connection(lambda: connection, sock=tcp)
            else:
                await self.loop.create_connection(
                    lambda: connection,
                    sock=tcp,
                    ssl=settings.ssl,
                    server_hostname=settings.server_hostname or link.address.host,
                    ssl_handshake_timeout=self.engine.timing.handshake,
                )
        except (OSError, UnicodeError) as error:  # UnicodeError: no host name.
            link.lost(epoch, str(error) or type(error).__name__, monotonic())
            self.pump_soon()

    async def _dial(self, link: Link) -> socket.socket:
        """Connect TCP to the first of the host's addresses that takes it."""
        host, port = link.address
        last: OSError = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in await self.loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            tcp = socket.socket(family, kind, protocol)
            try:
                tcp.setblocking(False)
                tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                await self.loop.sock_connect(tcp, address)
            except OSError as error:
                tcp.close()
                last = error
            except BaseException:
                with contextlib.suppress(OSError):
                    tcp.close()
                raise
            else:
                return tcp
        raise last
