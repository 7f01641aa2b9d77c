"""The process that a broker belongs to."""

from __future__ import annotations

import os

from ._errors import ClosedError


class Home:
    """The process that made a broker.

    A fork of it has the objects but not the threads, and shares sockets and epoll with it. So there
    a call could wait for ever, and tidying up would cut the parent's connections.
    """

    __slots__ = ("_process",)

    def __init__(self) -> None:
        """Take this process."""
        self._process = os.getpid()

    def is_here(self) -> bool:
        """Tell whether this is still that process."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Refuse what cannot work in a fork."""
        if not self.is_here():
            raise ClosedError(
                f"the broker belongs to process {self._process}, and this is a fork of it: "
                "make a broker in the child"
            )
