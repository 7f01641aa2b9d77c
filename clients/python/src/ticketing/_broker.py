"""What the two kinds of brokers have in common."""

from __future__ import annotations

import os
import ssl as _ssl
import warnings
from collections.abc import Sequence
from typing import ClassVar, NoReturn

from . import _limits as limits
from ._home import Home
from ._settings import Domain, Settings


class BaseBroker:
    """A client of one lock server or cluster.

    It belongs to the process that made it: in a fork every call raises ClosedError.
    """

    _timing: ClassVar[limits.Timing] = limits.Timing()

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        fingerprint: str | bytes | None = None,
        token: bytes | str | None = None,
        ssl: bool | str | os.PathLike[str] | _ssl.SSLContext = False,
        server_hostname: str | None = None,
        pending_limit: int = limits.PENDING_LIMIT_DEFAULT,
        release_queue_limit: int = limits.RELEASE_QUEUE_LIMIT_DEFAULT,
    ) -> None:
        """Check the settings and begin to connect in the background.

        Args:
            addresses: "host:port" or "[ipv6]:port"; for a cluster 3 or 5 of them in slot order.
            fingerprint: the cluster's identity, 32 bytes or 64 hex digits; selects cluster mode.
            token: client token, 16-4096 bytes; needed for every address that is not loopback.
            ssl: True trusts the system's roots, a path the CAs in that PEM file; or a context.
            server_hostname: name in the server's certificate; the address's host unless set.
            pending_limit: most acquires between call and answer, 1-16,384.
            release_queue_limit: most releases in progress, 1-16,384.

        Raises:
            InvalidInputError: a setting breaks its rule.
            RuntimeError: AsyncBroker only: no event loop is running.

        """
        self._settings = Settings.check(
            addresses,
            fingerprint=fingerprint,
            token=token,
            ssl=ssl,
            server_hostname=server_hostname,
            pending_limit=pending_limit,
            release_queue_limit=release_queue_limit,
        )
        self._home = Home()
        self._start()

    # What an error about the arguments shows.
    __init__.__qualname__ = "Broker.__init__"

    def _start(self) -> None:
        """Begin to connect."""
        raise NotImplementedError

    def _warn_of_drop(self) -> None:
        """Tell that nobody has closed it. Last of all: a warning may be made an error."""
        warnings.warn(
            f"{self!r} was dropped without being closed", ResourceWarning, stacklevel=3, source=self
        )

    def __reduce__(self) -> NoReturn:
        # Copies and pickles come here.
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: pass on the object itself, or "
            "make another one, in another process too"
        )

    @property
    def domain(self) -> Domain:
        """The fencing domain of this broker's tokens."""
        return self._settings.domain
