"""What the two kinds of tickets have in common."""

from __future__ import annotations

import logging
import warnings
from time import monotonic
from typing import NoReturn

from ._broker import BaseBroker
from ._calls import Grant
from ._errors import ReleaseUnconfirmedError, TicketingError
from ._settings import Domain

LOGGER = logging.getLogger("ticketing")


class BaseTicket:
    """A held lock."""

    __slots__ = ("_broker", "_grant", "_home", "_keys")

    def __init__(self, keys: tuple[bytes, ...], grant: Grant, broker: BaseBroker) -> None:
        self._keys = keys
        self._grant = grant
        self._broker = broker  # Kept for the release: a broker that is dropped closes.
        self._home = broker._home

    @property
    def key(self) -> str:
        """The key, or the first of a set."""
        return self._keys[0].decode()

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, ascending bytewise."""
        return tuple(key.decode() for key in self._keys)

    @property
    def token(self) -> int:
        """The fencing token, larger than every token granted before it in the same domain.

        Have the protected resource refuse any write with a token below the highest it has seen, in
        the same transaction as the write.
        """
        return self._grant.token

    @property
    def domain(self) -> Domain:
        """The fencing domain of the token."""
        return self._broker.domain

    @property
    def valid_before(self) -> float:
        """The time, on the clock of time.monotonic(), after which the holder must not act.

        It is the time when the request was sent, plus the lease.
        """
        return self._grant.valid_before

    @property
    def remaining(self) -> float:
        """Seconds until valid_before; negative after it."""
        return self._grant.valid_before - monotonic()

    def _warn_of_drop(self) -> None:
        """Tell that nobody has released it. Last of all: a warning may be made an error."""
        warnings.warn(
            f"{self!r} was dropped without being released",
            ResourceWarning,
            stacklevel=3,
            source=self,
        )

    def __reduce__(self) -> NoReturn:
        # Copies and pickles come here. Whichever of the two was dropped first would release both.
        raise TypeError(
            f"a ticket cannot be copied or pickled ({self!r}): pass on the object itself, or only "
            "its token"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.keys} token={self.token} domain={self.domain}>"

    def _log_exit(self, outcome: bool | TicketingError) -> None:
        """Log what release said at the end of a with block, where the work is done already."""
        if outcome is True:
            return
        if outcome is False:
            LOGGER.warning("%r was not held any more when it was released", self)
        elif isinstance(outcome, ReleaseUnconfirmedError):
            LOGGER.warning("release of %r was not confirmed; the lease ends it", self)
        else:
            LOGGER.warning("release of %r failed; the lease ends it: %s", self, outcome)
