"""Exposes the client's public API on standard input and output, for the conformance suite.

The contract is conformance/DRIVER.md. With the argument "blocking" it drives the blocking client,
one thread per command; otherwise the asyncio client, one task per command.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import perf_counter_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "src"))

import ticketing

KNOWN = {
    "open": {"addrs", "mode", "fingerprint", "token", "tls", "server_name", "pending"},
    "ready": {"broker", "timeout_ms"},
    "acquire": {"broker", "key", "wait_ms", "lease", "budget_ms"},
    "acquire-set": {"broker", "keys", "wait_ms", "lease", "budget_ms"},
    "cancel": {"target"},
    "release": {"ticket"},
    "drop": {"ticket"},
    "close": {"broker"},
    "pairs": {"broker", "key", "callers", "count"},
}

Options = dict[str, str]


class BadCommandError(Exception):
    """The command is not of the contract."""


def name(error: BaseException) -> str:
    """Spell an error as the contract does."""
    if isinstance(error, ticketing.RejectedError):
        return f"Rejected {error.code.value}"
    if isinstance(error, asyncio.CancelledError):
        return "Cancelled"
    if isinstance(error, (BadCommandError, KeyError, ValueError)) and not isinstance(
        error, ticketing.TicketingError
    ):
        return "BadCommand"
    return type(error).__name__.removesuffix("Error")


def parse(line: str) -> tuple[str, str, Options]:
    verb, tag, *words = line.split(" ")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    if len(options) != len(words) or verb not in KNOWN or options.keys() - KNOWN[verb]:
        raise BadCommandError(line)
    return verb, tag, options


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def text(digits: str) -> str:
    """Decode a key. What is not UTF-8 cannot be expressed as a str."""
    try:
        return bytes.fromhex("" if digits == "-" else digits).decode()
    except UnicodeDecodeError as error:
        raise ticketing.InvalidInputError("a key is no text") from error


def context(kind: str) -> bool | str | ssl.SSLContext:
    if kind in ("off", "system"):
        return kind == "system"
    if kind == "insecure":
        insecure = ssl.create_default_context()
        insecure.check_hostname = False
        insecure.verify_mode = ssl.CERT_NONE
        return insecure
    if kind.startswith("ca:"):
        return kind.removeprefix("ca:")
    raise BadCommandError(kind)


def settings(options: Options) -> dict[str, Any]:
    """Turn the options of open into those of a broker."""
    cluster = {"single": False, "cluster": True}[options["mode"]]
    given: dict[str, Any] = {
        "addresses": options["addrs"].split(","),
        "fingerprint": options.get("fingerprint", "") if cluster else options.get("fingerprint"),
        "ssl": context(options.get("tls", "off")),
        "server_hostname": options.get("server_name"),
    }
    if "token" in options:
        given["token"] = bytes.fromhex(options["token"].replace("-", ""))
    if "pending" in options:
        given["pending_limit"] = int(options["pending"])
    return given


def terms(options: Options) -> dict[str, float]:
    return {
        "wait": int(options["wait_ms"]) / 1000,
        "lease": int(options["lease"]),
        "budget": int(options.get("budget_ms", "0")) / 1000,
    }


def keys(options: Options) -> list[str]:
    return [text(digits) for digits in options["keys"].split(",") if digits]


def granted(tag: str, ticket: ticketing.Ticket | ticketing.AsyncTicket) -> str:
    return f"{tag} granted token={ticket.token} remaining_ms={int(ticket.remaining * 1000)}"


def shares(options: Options) -> list[tuple[str, int]]:
    """Share the pairs out: key and count of each caller."""
    callers, count = int(options["callers"]), int(options["count"])
    return [
        (text(options["key"]) + str(caller), (count + callers - 1 - caller) // callers)
        for caller in range(callers)
    ]


class AsyncDriver:
    """Drives AsyncBroker."""

    def __init__(self) -> None:
        self.brokers: dict[str, ticketing.AsyncBroker] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.tickets: dict[str, ticketing.AsyncTicket] = {}

    async def run(self) -> None:
        """Read commands until the end of input."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 20)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().rstrip("\n"):
            self.command(line)
        for task in self.tasks.values():
            task.cancel()
        for broker in self.brokers.values():
            await broker.close()

    def command(self, line: str) -> None:
        try:
            verb, tag, options = parse(line)
            if verb == "open":
                self.brokers[tag] = ticketing.AsyncBroker(**settings(options))
                say(f"{tag} ok")
            elif verb == "cancel":
                self.tasks[options["target"]].cancel()
                say(f"{tag} ok")
            elif verb == "drop":
                self.tickets[options["ticket"]].abandon()
                say(f"{tag} ok")
            else:
                work: Callable[[str, Options], Coroutine[Any, Any, str]]
                work = getattr(self, verb.replace("-", "_"))
                self.tasks[tag] = asyncio.create_task(self.answer(tag, work(tag, options)))
        except Exception as error:
            say(f"{line.split(' ')[1] if ' ' in line else line} error {name(error)}")

    async def answer(self, tag: str, work: Coroutine[Any, Any, str]) -> None:
        try:
            say(await work)
        except (Exception, asyncio.CancelledError) as error:
            print(f"{tag}: {error!r}", file=sys.stderr)
            say(f"{tag} error {name(error)}")
        finally:
            self.tasks.pop(tag, None)

    async def ready(self, tag: str, options: Options) -> str:
        await self.brokers[options["broker"]].ready(int(options["timeout_ms"]) / 1000)
        return f"{tag} ok"

    async def acquire(self, tag: str, options: Options) -> str:
        broker = self.brokers[options["broker"]]
        self.tickets[tag] = await broker.acquire(text(options["key"]), **terms(options))
        return granted(tag, self.tickets[tag])

    async def acquire_set(self, tag: str, options: Options) -> str:
        broker = self.brokers[options["broker"]]
        self.tickets[tag] = await broker.acquire_set(keys(options), **terms(options))
        return granted(tag, self.tickets[tag])

    async def release(self, tag: str, options: Options) -> str:
        released = await self.tickets[options["ticket"]].release()
        return f"{tag} {'released' if released else 'not-held'}"

    async def close(self, tag: str, options: Options) -> str:
        await self.brokers[options["broker"]].close()
        return f"{tag} ok"

    async def pairs(self, tag: str, options: Options) -> str:
        broker = self.brokers[options["broker"]]

        async def caller(key: str, count: int) -> int:
            failed = 0
            for _ in range(count):
                try:
                    ticket = await broker.acquire(key, wait=5, lease=30)
                    failed += not await ticket.release()
                except ticketing.TicketingError:
                    failed += 1
            return failed

        began = perf_counter_ns()
        failed = sum(await asyncio.gather(*(caller(*share) for share in shares(options))))
        elapsed = perf_counter_ns() - began
        return f"{tag} pairs count={options['count']} failed={failed} nanoseconds={elapsed}"


class BlockingDriver:
    """Drives Broker."""

    def __init__(self) -> None:
        self.brokers: dict[str, ticketing.Broker] = {}
        self.cancellations: dict[str, ticketing.Cancellation] = {}
        self.tickets: dict[str, ticketing.Ticket] = {}

    def run(self) -> None:
        """Read commands until the end of input."""
        for line in sys.stdin:
            self.command(line.rstrip("\n"))
        for cancellation in list(self.cancellations.values()):
            cancellation.cancel()
        for broker in self.brokers.values():
            broker.close()

    def command(self, line: str) -> None:
        try:
            verb, tag, options = parse(line)
            if verb == "open":
                self.brokers[tag] = ticketing.Broker(**settings(options))
                say(f"{tag} ok")
            elif verb == "cancel":
                self.cancellations[options["target"]].cancel()
                say(f"{tag} ok")
            elif verb == "drop":
                self.tickets[options["ticket"]].abandon()
                say(f"{tag} ok")
            else:
                if verb.startswith("acquire"):
                    self.cancellations[tag] = ticketing.Cancellation()
                work: Callable[[str, Options], str] = getattr(self, verb.replace("-", "_"))
                threading.Thread(target=self.answer, args=(work, tag, options), daemon=True).start()
        except Exception as error:
            say(f"{line.split(' ')[1] if ' ' in line else line} error {name(error)}")

    def answer(self, work: Callable[[str, Options], str], tag: str, options: Options) -> None:
        try:
            say(work(tag, options))
        except Exception as error:
            print(f"{tag}: {error!r}", file=sys.stderr)
            say(f"{tag} error {name(error)}")

    def ready(self, tag: str, options: Options) -> str:
        self.brokers[options["broker"]].ready(int(options["timeout_ms"]) / 1000)
        return f"{tag} ok"

    def acquire(self, tag: str, options: Options) -> str:
        broker = self.brokers[options["broker"]]
        self.tickets[tag] = broker.acquire(
            text(options["key"]), **terms(options), cancellation=self.cancellations[tag]
        )
        return granted(tag, self.tickets[tag])

    def acquire_set(self, tag: str, options: Options) -> str:
        broker = self.brokers[options["broker"]]
        self.tickets[tag] = broker.acquire_set(
            keys(options), **terms(options), cancellation=self.cancellations[tag]
        )
        return granted(tag, self.tickets[tag])

    def release(self, tag: str, options: Options) -> str:
        released = self.tickets[options["ticket"]].release()
        return f"{tag} {'released' if released else 'not-held'}"

    def close(self, tag: str, options: Options) -> str:
        self.brokers[options["broker"]].close()
        return f"{tag} ok"

    def pairs(self, tag: str, options: Options) -> str:
        broker = self.brokers[options["broker"]]
        failures: list[int] = []

        def caller(key: str, count: int) -> None:
            failed = 0
            for _ in range(count):
                try:
                    failed += not broker.acquire(key, wait=5, lease=30).release()
                except ticketing.TicketingError:
                    failed += 1
            failures.append(failed)

        threads = [threading.Thread(target=caller, args=share) for share in shares(options)]
        began = perf_counter_ns()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = perf_counter_ns() - began
        return f"{tag} pairs count={options['count']} failed={sum(failures)} nanoseconds={elapsed}"


if __name__ == "__main__":
    if sys.argv[1:] == ["blocking"]:
        BlockingDriver().run()
    else:
        asyncio.run(AsyncDriver().run())
