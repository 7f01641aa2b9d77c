"""Every bound of the client, with its unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Protocol, "Request frames".
KEY_SIZE_BYTES_MIN: Final = 1
KEY_SIZE_BYTES_MAX: Final = 128
SET_KEY_COUNT_MAX: Final = 16
WAIT_SECONDS_MAX: Final = 255
LEASE_SECONDS_MIN: Final = 1
LEASE_SECONDS_MAX: Final = 250
TOKEN_SIZE_BYTES_MIN: Final = 16
TOKEN_SIZE_BYTES_MAX: Final = 4096
FINGERPRINT_SIZE_BYTES: Final = 32

PENDING_LIMIT_DEFAULT: Final = 1024
RELEASE_QUEUE_LIMIT_DEFAULT: Final = 1024
#: The highest either limit may be set to.
CALL_LIMIT_MAX: Final = 16_384

#: Unanswered requests of one session: every acquire a broker may have, and as many attempts of
#: releases. A server that leaves more unanswered has stopped serving.
OUTSTANDING_MAX: Final = 2 * CALL_LIMIT_MAX

#: Connections to a single address, so that one broken socket does not interrupt service.
CONNECTIONS_SINGLE: Final = 2

#: What one write hands to the socket, and so what a broken connection makes indeterminate at once.
BATCH_SIZE_BYTES_MAX: Final = 64 << 10


@dataclass(frozen=True)
class Timing:
    """Every duration of the client, in seconds, so that tests can use others."""

    connect: float = 5.0
    #: TLS and challenge-response together.
    handshake: float = 10.0
    #: First pause before reconnecting; doubles.
    backoff_min: float = 0.1
    backoff_max: float = 3.2
    #: A session that lasted this long starts back-off again.
    session_long: float = 1.0
    #: How long an acquire with wait 0 may look for a server.
    immediate_find: float = 5.0
    #: Beyond the wait sent, until a sent acquire is indeterminate.
    answer_grace: float = 5.0
    #: From the release call.
    release_window: float = 5.0
    #: Without an answer, until a release is sent again.
    release_attempt: float = 2.0
    #: Pause between attempts of one call; doubles.
    retry_min: float = 0.01
    retry_max: float = 0.1
    #: How long closing lets releases finish.
    close_drain: float = 5.0
