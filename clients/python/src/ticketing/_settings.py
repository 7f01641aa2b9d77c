"""Settings and arguments, checked by the same rules as the server's."""

from __future__ import annotations

import ipaddress
import math
import os
import ssl as _ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from . import _limits as limits
from ._errors import InvalidInputError


@dataclass(frozen=True)
class Domain:
    """The fencing domain of a token: tokens of two domains must never be compared."""

    #: The cluster's 32-byte identity; None for a single server.
    fingerprint: bytes | None = None

    def __str__(self) -> str:
        """Return "single", or the fingerprint in hex digits."""
        return "single" if self.fingerprint is None else self.fingerprint.hex()


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


@dataclass(frozen=True)
class Settings:
    """The settings of a broker."""

    addresses: tuple[Address, ...]
    domain: Domain
    token: bytes = field(repr=False)
    ssl: _ssl.SSLContext | None
    server_hostname: str | None
    pending_limit: int
    release_queue_limit: int

    @property
    def voters(self) -> int:
        """Number of slots, 0 in single mode."""
        return 0 if self.domain.fingerprint is None else len(self.addresses)

    @classmethod
    def check(
        cls,
        addresses: str | Sequence[str],
        *,
        fingerprint: str | bytes | None,
        token: bytes | str | None,
        ssl: bool | str | os.PathLike[str] | _ssl.SSLContext,
        server_hostname: str | None,
        pending_limit: int,
        release_queue_limit: int,
    ) -> Settings:
        """Check what the caller gave."""
        listed = _listed(addresses)
        if fingerprint is None and len(listed) != 1:
            raise InvalidInputError(
                f"a single server has 1 address, not {len(listed)}: set fingerprint for a cluster"
            )
        if fingerprint is not None and len(listed) not in (3, 5):
            raise InvalidInputError(f"a cluster has 3 or 5 addresses, not {len(listed)}")
        if server_hostname is not None and not isinstance(server_hostname, str):
            raise InvalidInputError(f"server_hostname is a str, not {server_hostname!r}")
        if server_hostname is not None and ssl is False:
            raise InvalidInputError(
                "server_hostname without ssl: no certificate is looked at; set ssl too, or leave "
                "the name out"
            )
        secret = _token(token)
        parsed = tuple(_address(text, secret) for text in listed)
        for name, count in (
            ("pending_limit", pending_limit),
            ("release_queue_limit", release_queue_limit),
        ):
            if not isinstance(count, int):
                raise InvalidInputError(f"{name} is an int, not {count!r}")
            if not 1 <= count <= limits.CALL_LIMIT_MAX:
                raise InvalidInputError(
                    f"{name} is {count}: 1 to {limits.CALL_LIMIT_MAX} are allowed"
                )
        return cls(
            parsed,
            Domain(None if fingerprint is None else _fingerprint(fingerprint)),
            secret,
            _context(ssl),
            server_hostname,
            pending_limit,
            release_queue_limit,
        )


def _listed(addresses: str | Sequence[str]) -> list[str]:
    listed: object = [addresses] if isinstance(addresses, str) else addresses
    if not isinstance(listed, Sequence) or not all(isinstance(text, str) for text in listed):
        raise InvalidInputError(f"addresses is a str or a sequence of them, not {addresses!r}")
    return list(listed)


def _bytes(name: str, value: object) -> bytes:
    """Convert by type: bytes(32) would be 32 zeros."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InvalidInputError(f"{name} is a str or bytes, not {type(value).__name__}")


def _context(ssl: bool | str | os.PathLike[str] | _ssl.SSLContext) -> _ssl.SSLContext | None:
    if isinstance(ssl, _ssl.SSLContext):
        return ssl
    if isinstance(ssl, bool):
        return _ssl.create_default_context() if ssl else None
    if not isinstance(ssl, (str, os.PathLike)):
        raise InvalidInputError(
            f"ssl is True, False, the path of a CA file or an ssl.SSLContext, not {ssl!r}"
        )
    if not os.fspath(ssl):  # It would mean the system's roots.
        raise InvalidInputError("ssl is an empty path: name the CA file, or set True or False")
    try:
        return _ssl.create_default_context(cafile=ssl)
    except OSError as error:  # ssl.SSLError is one, too.
        raise InvalidInputError(f"CA file {os.fspath(ssl)!r} cannot be used: {error}") from error


def _token(token: bytes | str | None) -> bytes:
    if token is None:
        return b""
    secret = _bytes("token", token)
    if not limits.TOKEN_SIZE_BYTES_MIN <= len(secret) <= limits.TOKEN_SIZE_BYTES_MAX:
        raise InvalidInputError(
            f"the token has {len(secret)} bytes: {limits.TOKEN_SIZE_BYTES_MIN} to "
            f"{limits.TOKEN_SIZE_BYTES_MAX} are allowed"
        )
    return secret


def _fingerprint(fingerprint: str | bytes) -> bytes:
    if isinstance(fingerprint, str):
        try:
            raw = bytes.fromhex(fingerprint)
        except ValueError:
            raw = b""
    else:
        raw = _bytes("fingerprint", fingerprint)
    if len(raw) != limits.FINGERPRINT_SIZE_BYTES:
        raise InvalidInputError(
            f"the fingerprint {fingerprint!r} is not {limits.FINGERPRINT_SIZE_BYTES} bytes or "
            f"{2 * limits.FINGERPRINT_SIZE_BYTES} hex digits: copy it from the server's start line"
        )
    return raw


def _address(text: str, token: bytes) -> Address:
    host, separator, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            raise InvalidInputError(f"address {text!r} has no IPv6 address in []") from error
    elif not host or any(character in host for character in ":[], /"):
        raise InvalidInputError(f"address {text!r} is not host:port (IPv6: [addr]:port)")
    port = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 5 else 0
    if not separator or not 1 <= port <= 65535:
        raise InvalidInputError(f"address {text!r} has no port from 1 to 65535")
    if not token and not _is_loopback(host):
        raise InvalidInputError(f"address {text!r} is not on loopback: set a token")
    return Address(host, port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Terms(NamedTuple):
    """The terms of an acquire: wait and lease in whole seconds, budget in seconds."""

    wait: int
    lease: int
    budget: float


def check_terms(wait: float, lease: float, budget: float) -> Terms:
    """Check the terms; fractions of wait are rounded up."""
    try:
        # The comparisons are false for NaN.
        if not 0 <= wait <= limits.WAIT_SECONDS_MAX:
            raise InvalidInputError(
                f"wait is {wait} s: 0 to {limits.WAIT_SECONDS_MAX} s are allowed"
            )
        if not limits.LEASE_SECONDS_MIN <= lease <= limits.LEASE_SECONDS_MAX or lease % 1:
            raise InvalidInputError(
                f"lease is {lease} s: whole seconds from {limits.LEASE_SECONDS_MIN} to "
                f"{limits.LEASE_SECONDS_MAX} are allowed"
            )
        if not 0 <= budget < lease:
            raise InvalidInputError(
                f"budget is {budget} s: 0 to less than the lease ({lease} s) are allowed"
            )
    except TypeError as error:
        raise InvalidInputError(f"wait, lease and budget are numbers of seconds: {error}") from None
    return Terms(math.ceil(wait), int(lease), float(budget))


def check_key(key: str) -> bytes:
    """Apply the key rule: 1-128 bytes of UTF-8 without space, LF or CR."""
    if not isinstance(key, str):
        raise InvalidInputError(f"a key is a str, not {type(key).__name__}")
    try:
        raw = key.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"key {key!r} cannot be written in UTF-8") from error
    if not limits.KEY_SIZE_BYTES_MIN <= len(raw) <= limits.KEY_SIZE_BYTES_MAX:
        raise InvalidInputError(
            f"a key has {len(raw)} bytes: {limits.KEY_SIZE_BYTES_MIN} to "
            f"{limits.KEY_SIZE_BYTES_MAX} are allowed"
        )
    if b" " in raw or b"\n" in raw or b"\r" in raw:
        raise InvalidInputError(f"key {key!r} has a space, LF or CR: leave it out")
    return raw


def check_keys(keys: Iterable[str]) -> tuple[bytes, ...]:
    """Check a set: sorted bytewise, without duplicates, 1-16 keys."""
    if isinstance(keys, str):
        raise InvalidInputError("keys is one str: give a collection of them, or use acquire()")
    raw = tuple(sorted({check_key(key) for key in keys}))
    if not 1 <= len(raw) <= limits.SET_KEY_COUNT_MAX:
        raise InvalidInputError(
            f"a key set has {len(raw)} keys: 1 to {limits.SET_KEY_COUNT_MAX} are allowed"
        )
    return raw
