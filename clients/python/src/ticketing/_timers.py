"""Deadlines by owner: a heap that forgets cancelled entries in bulk."""

from __future__ import annotations

import heapq
from typing import Protocol

#: Below this size the heap is not worth rebuilding.
_COMPACT_COUNT_MIN = 64


class Entry:
    """One deadline; without an owner once it is cancelled or has fired."""

    __slots__ = ("at", "owner")

    def __init__(self, at: float, owner: TimerOwner) -> None:
        """Set when it is due and whose it is."""
        self.at = at
        self.owner: TimerOwner | None = owner

    def __lt__(self, other: Entry) -> bool:
        """Order by time."""
        return self.at < other.at


class TimerOwner(Protocol):
    """What may have one deadline."""

    timer: Entry | None

    def expired(self, now: float) -> None:
        """Act on the deadline."""


class Timers:
    """At most one deadline per owner; setting another replaces it."""

    __slots__ = ("_cancelled", "_heap")

    def __init__(self) -> None:
        """Begin without deadlines."""
        self._heap: list[Entry] = []
        self._cancelled = 0

    def set(self, owner: TimerOwner, at: float) -> None:
        """Replace the owner's deadline."""
        self.cancel(owner)
        owner.timer = Entry(at, owner)
        heapq.heappush(self._heap, owner.timer)

    def cancel(self, owner: TimerOwner) -> None:
        """Remove the owner's deadline, if it has one."""
        entry = owner.timer
        if entry is None:
            return
        owner.timer = entry.owner = None
        self._cancelled += 1
        if self._cancelled > max(_COMPACT_COUNT_MIN, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry.owner is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next(self) -> float | None:
        """Return when the next deadline is due."""
        while self._heap and self._heap[0].owner is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0].at if self._heap else None

    def expire(self, now: float) -> None:
        """Tell every owner whose deadline has come."""
        while True:
            at = self.next()
            if at is None or at > now:
                return
            owner = heapq.heappop(self._heap).owner
            assert owner is not None
            owner.timer = None
            owner.expired(now)
