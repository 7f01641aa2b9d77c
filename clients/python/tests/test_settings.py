"""Inputs are checked before anything is sent."""

from __future__ import annotations

import math
from typing import Any

import pytest

from support import FINGERPRINT, settings
from ticketing import Domain, InvalidInputError
from ticketing._settings import check_key, check_keys, check_terms

TOKEN = b"0123456789abcdef"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:5225", "127.9.9.9:1", "localhost:65535", "[::1]:5225"],
)
def test_loopback_needs_no_token(address: str) -> None:
    assert settings(address).voters == 0


@pytest.mark.parametrize("address", ["locks.example:5225", "192.0.2.1:5225", "[2001:db8::1]:1"])
def test_other_addresses_need_a_token(address: str) -> None:
    settings(address, token=TOKEN)
    with pytest.raises(InvalidInputError, match="set a token"):
        settings(address)


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1", "127.0.0.1:", "h:0", "h:65536", "h:http", "h:-1", "h: 1", "h:\u0661", "::1:1",
     ":5225", "a:1,b:2", "[h]:1", "[::1]", "h/x:1"],
)  # fmt: skip
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(InvalidInputError):
        settings(address, token=TOKEN)


@pytest.mark.parametrize("count", range(7))
def test_number_of_addresses(count: int) -> None:
    addresses = ["127.0.0.1:1"] * count
    if count == 1:
        settings(addresses)
    else:
        with pytest.raises(InvalidInputError):
            settings(addresses)
    if count in (3, 5):
        assert settings(addresses, fingerprint=FINGERPRINT).voters == count
    else:
        with pytest.raises(InvalidInputError):
            settings(addresses, fingerprint=FINGERPRINT)


@pytest.mark.parametrize(("size", "valid"), [(0, False), (15, False), (16, True), (4096, True), (4097, False)])  # fmt: skip  # noqa: E501
def test_token_size(size: int, valid: bool) -> None:
    if valid:
        assert settings(token="t" * size).token == b"t" * size
    else:
        with pytest.raises(InvalidInputError):
            settings(token=bytes(size))


def test_a_token_is_not_shown() -> None:
    assert "0123456789abcdef" not in repr(settings(token=TOKEN))


@pytest.mark.parametrize("name", ["pending_limit", "release_queue_limit"])
def test_limits(name: str) -> None:
    for count in (1, 16_384):
        settings(**{name: count})
    for count in (0, 16_385, -1):
        with pytest.raises(InvalidInputError, match=name):
            settings(**{name: count})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("addresses", 5225),
        ("addresses", None),
        ("addresses", [5225]),
        ("addresses", b"127.0.0.1:5225"),
        ("token", 32),
        ("fingerprint", 32),
        ("ssl", None),
        ("ssl", ""),
        ("ssl", 1),
        ("server_hostname", 5),
        ("pending_limit", "9"),
        ("release_queue_limit", None),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_by_its_name(name: str, value: object) -> None:
    given: dict[str, Any] = {"addresses": "127.0.0.1:1"}
    if name == "fingerprint":
        given["addresses"] = ["127.0.0.1:1"] * 3
    with pytest.raises(InvalidInputError, match=name):
        settings(**{**given, name: value})


def test_a_name_without_tls() -> None:
    with pytest.raises(InvalidInputError, match="server_hostname without ssl"):
        settings(server_hostname="locks.example")
    assert settings(ssl=True, server_hostname="locks.example").server_hostname == "locks.example"


@pytest.mark.parametrize("fingerprint", ["", "0a" * 31, "0a" * 33, "zz" * 32, b"", bytes(31)])
def test_fingerprints_that_are_none(fingerprint: Any) -> None:
    with pytest.raises(InvalidInputError):
        settings(["127.0.0.1:1"] * 3, fingerprint=fingerprint)


def test_domains() -> None:
    digits = FINGERPRINT.hex()
    domain = settings(["127.0.0.1:1"] * 3, fingerprint=digits).domain
    assert domain == Domain(FINGERPRINT)
    assert str(domain) == digits
    assert str(settings().domain) == "single"


@pytest.mark.parametrize(
    ("wait", "lease", "budget"),
    [
        (-0.001, 30, 0),
        (255.001, 30, 0),
        (math.nan, 30, 0),
        (math.inf, 30, 0),
        (0, 0, 0),
        (0, 251, 0),
        (0, 1.5, 0),
        (0, math.nan, 0),
        (0, 1, 1),
        (0, 1, -0.001),
        (0, 1, math.nan),
        ("1", 1, 0),
        (0, None, 0),
    ],
)
def test_terms_that_are_refused(wait: Any, lease: Any, budget: Any) -> None:
    with pytest.raises(InvalidInputError):
        check_terms(wait, lease, budget)


def test_terms() -> None:
    assert check_terms(0, 1, 0) == (0, 1, 0.0)
    assert check_terms(0.001, 250.0, 249.999) == (1, 250, 249.999)
    assert check_terms(255, 2, 1) == (255, 2, 1.0)


def test_keys() -> None:
    assert check_key("\x00\t\u00e9") == b"\x00\t\xc3\xa9"
    assert len(check_key("k" * 128)) == 128
    for key in ("", "k" * 129, "\u00e9" * 65, "a b", "a\n", "\r", "\ud800", b"k", None):
        with pytest.raises(InvalidInputError):
            check_key(key)  # type: ignore[arg-type]


def test_key_sets() -> None:
    assert check_keys(["b", "\u00e9", "a", "b"]) == (b"a", b"b", b"\xc3\xa9")
    assert check_keys(["a", "a"]) == (b"a",)
    # Bytes, not UTF-16 code units.
    assert check_keys(["\U00010000", "\uffff"]) == (b"\xef\xbf\xbf", b"\xf0\x90\x80\x80")
    check_keys([chr(97 + number) for number in range(16)])
    for keys in ([], [chr(97 + number) for number in range(17)], "ab", ["a", " "]):
        with pytest.raises(InvalidInputError):
            check_keys(keys)
