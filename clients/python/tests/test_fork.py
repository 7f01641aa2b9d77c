"""A fork of a broker's process: nothing may hang in it, nor reach the parent's sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripted import serve
from support import PATIENCE

SOURCES = Path(__file__).resolve().parents[1] / "src"

BLOCKING = """
import os, signal, sys
import ticketing

def child(broker, ticket):
    for call in (
        lambda: broker.acquire("k", wait=2, lease=1),
        lambda: broker.acquire_set(["k"], wait=2, lease=1),
        lambda: broker.ready(1),
        ticket.release,
        ticket.abandon,
    ):
        try:
            call()
        except ticketing.ClosedError as error:
            assert "make a broker in the child" in str(error), error
        else:
            sys.exit("no ClosedError")
    with broker, ticket:
        pass

broker = ticketing.Broker(sys.argv[1])
ticket = broker.acquire("k", wait=5, lease=30)
pid = os.fork()
if pid == 0:
    signal.alarm(int(sys.argv[2]))
    child(broker, ticket)
    del ticket, broker
    sys.exit()  # With all that the interpreter does at its end.
assert os.waitpid(pid, 0)[1] == 0
assert ticket.release()
broker.close()
"""

ASYNCIO = """
import asyncio, os, signal, sys
import ticketing

async def make():
    broker = ticketing.AsyncBroker(sys.argv[1])
    return broker, await broker.acquire("k", wait=5, lease=30)

async def child(broker, ticket):
    for call in (
        lambda: broker.acquire("k", wait=2, lease=1),
        lambda: broker.acquire_set(["k"], wait=2, lease=1),
        lambda: broker.ready(1),
        ticket.release,
    ):
        try:
            await call()
        except ticketing.ClosedError as error:
            assert "make a broker in the child" in str(error), error
        else:
            sys.exit("no ClosedError")
    async with broker, ticket:
        pass

loop = asyncio.new_event_loop()
broker, ticket = loop.run_until_complete(make())
pid = os.fork()
if pid == 0:
    signal.alarm(int(sys.argv[2]))
    asyncio.run(child(broker, ticket))
    del ticket, broker
    os._exit(0)  # The parent's loop is not to be tidied up here: that is asyncio's own rule.
assert os.waitpid(pid, 0)[1] == 0
assert loop.run_until_complete(ticket.release())
loop.run_until_complete(broker.close())
loop.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
@pytest.mark.parametrize("script", [BLOCKING, ASYNCIO], ids=["blocking", "asyncio"])
def test_a_fork(script: str) -> None:
    # From Python 3.12 on fork itself warns when there are threads.
    command = [sys.executable, "-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning"]
    with (
        serve() as server,
        subprocess.Popen(
            [*command, "-c", script, server.address, str(int(PATIENCE / 2))],
            env={**os.environ, "PYTHONPATH": str(SOURCES)},
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            for _ in range(2):
                server.accept()
            for op in "AR":
                assert server.answer(op, 41).op == op
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        assert (process.returncode, said) == (0, "")
        for peer in server.peers:
            peer.expect_closed()
