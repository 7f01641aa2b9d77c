"""The golden vectors, both directions, cut everywhere."""

from typing import Any

import pytest

from support import (
    BadFrameError,
    Request,
    decode_request,
    hello,
    load,
    reply_frame,
)
from ticketing import InvalidInputError
from ticketing import _wire as wire
from ticketing._session import Session
from ticketing._settings import check_key, check_keys

Case = dict[str, Any]


def cases(*topics: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case["id"]) for topic in topics for case in load(topic)]
    )


def fields_of_request(case: Case) -> Request:
    fields = case["fields"]
    digits = fields["keys_hex"] if "keys_hex" in fields else [fields["key_hex"]]
    return Request(
        fields["op"],
        int(fields["request_id"]),
        tuple(bytes.fromhex(key) for key in digits),
        int(fields.get("wait", 0)),
        int(fields.get("lease", 0)),
        int(fields.get("token", 0)),
    )


def encode(request: Request) -> bytes:
    if request.op in "AS":
        return wire.acquire_frame(request.request_id, request.wait, request.lease, request.keys)
    return wire.release_frame(request.request_id, request.token, request.keys)


@cases("request-acquire", "request-release", "request-acquire-set", "request-release-set")
def test_requests(case: Case) -> None:
    data, request = bytes.fromhex(case["hex"]), fields_of_request(case)
    assert encode(request) == data
    assert decode_request(data) == (request, len(data))
    for cut in range(len(data)):
        assert decode_request(data[:cut]) is None
    keys = [key.decode() for key in request.keys]
    assert check_keys(keys) == request.keys


@cases("invalid-value-request", "order-of-checks")
def test_invalid_values_are_refused_before_sending(case: Case) -> None:
    if case["layer"] == "frame":
        with pytest.raises(BadFrameError):
            decode_request(bytes.fromhex(case["hex"]))
        return
    request = fields_of_request(case)
    if case["code"] in ("2", "7"):
        return  # Lease and token: test_settings.py; a client never has token 0.
    try:
        keys = [key.decode() for key in request.keys]
        checked = (check_key(keys[0]),) if request.op in "AR" else check_keys(keys)
    except (InvalidInputError, UnicodeDecodeError):
        return
    # A set in another order or with duplicates is repaired rather than refused.
    assert case["code"] == "5"
    assert checked != request.keys or len(checked) == 1


@cases("invalid-frame-request")
def test_the_tests_own_server_sees_broken_frames(case: Case) -> None:
    with pytest.raises(BadFrameError):
        decode_request(bytes.fromhex(case["hex"]))


@cases("reply-single", "reply-cluster")
def test_replies(case: Case) -> None:
    data, fields = bytes.fromhex(case["hex"]), case["fields"]
    value = int(fields.get("token") or fields.get("slot") or fields.get("code") or 0)
    request_id = int(fields.get("request_id", 0))
    assert reply_frame(fields["op"], request_id, value) == data
    reply = wire.Reply(ord(fields["op"]), request_id, value)
    voters = case["voter_count"]
    for cut in range(len(data)):
        assert wire.decode_reply(b"x" + data[:cut], 1, voters) is None
    assert wire.decode_reply(b"x" + data + b"x", 1, voters) == (reply, 1 + len(data))


def accepted(voters: int) -> Session[int]:
    if voters == 0:
        session = Session[int](wire.Identity.single(), b"", 0)
        session.handshake(hello() + b"\x01")
    else:
        session = Session[int](wire.Identity.member(bytes(32), 0), b"", voters)
        session.handshake(hello(1, 0) + b"\x01")
    return session


@cases("invalid-frame-reply", "invalid-value-reply", "invalid-correlation")
def test_invalid_replies_end_the_session(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    for cut in range(len(data) + 1):
        session = accepted(case["voter_count"])
        for owner, digits in enumerate(case.get("requests_hex", [])):
            decoded = decode_request(bytes.fromhex(digits))
            assert decoded is not None
            request = decoded[0]
            session._last_id = request.request_id - 1
            if request.op in "AS":
                frame = session.acquire(owner, request.wait, request.lease, request.keys)
            else:
                frame = session.release(owner, request.token, request.keys)
            assert frame == bytes.fromhex(digits)
        _, fault = session.receive(data[:cut])
        if fault is None:
            _, fault = session.receive(data[cut:])
        assert fault is not None, cut


def identity(case: Case, fingerprint: bytes = bytes(32)) -> wire.Identity:
    if case["mode"] == "single":
        return wire.Identity.single()
    slot = case.get("expected_slot", int(case.get("fields", {}).get("slot", 0)))
    return wire.Identity.member(fingerprint, slot)


@cases("hello", "invalid-hello")
def test_hellos(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    for cut in range(len(data) + 1):
        session = Session[int](identity(case), b"", case["voter_count"])
        try:
            proof = session.handshake(data[:cut]) + session.handshake(data[cut:])
        except wire.ProtocolError:
            assert case["expect"] == "reject"
        else:
            assert len(proof) == (32 if case["expect"] == "ok" else 0)


@cases("proof", "invalid-proof")
def test_proofs(case: Case) -> None:
    if case["direction"] == "result":
        session = Session[int](wire.Identity.single(), b"", 0)
        session.handshake(hello())
        with pytest.raises(wire.ProtocolError):
            session.handshake(bytes.fromhex(case["hex"]))
        return
    fields = case["fields"]
    token, nonce = bytes.fromhex(fields["token_hex"]), bytes.fromhex(fields["nonce_hex"])
    expected = identity(case, bytes.fromhex(fields["fingerprint_hex"]))
    proof = expected.proof(hello(int(fields["mode"]), int(fields["slot"]), nonce), token)
    assert (proof.hex() == case["hex"]) == (case["expect"] == "ok")


def test_verdicts() -> None:
    session = Session[int](wire.Identity.single(), b"", 0)
    session.handshake(hello())
    with pytest.raises(wire.TokenRefusedError):
        session.handshake(b"\x00")


def test_replies_are_matched_however_they_are_split() -> None:
    data = (
        reply_frame("L", 0, 2)
        + reply_frame("S", 3, 7)
        + reply_frame("M", 2, 255)
        + reply_frame("E", 1, 2)
    )
    for cut in range(len(data) + 1):
        session = accepted(3)
        session.acquire(1, 0, 1, [b"a"])
        session.release(2, 9, [b"a"])
        session.acquire(3, 0, 1, [b"a", b"b"])
        first, fault = session.receive(data[:cut])
        assert fault is None
        second, fault = session.receive(data[cut:])
        assert fault is None
        assert [(owner, chr(reply.op), reply.value) for owner, reply in first + second] == [
            (None, "L", 2),
            (3, "S", 7),
            (2, "M", 255),
            (1, "E", 2),
        ]
        assert session.outstanding == 0


def test_replies_right_behind_the_handshake_are_kept() -> None:
    session = Session[int](wire.Identity.member(bytes(32), 0), b"", 3)
    session.handshake(hello(1, 0) + b"\x01" + reply_frame("L", 0, 1))
    assert session.accepted
    replies, fault = session.receive(b"")
    assert fault is None
    assert [reply.value for _, reply in replies] == [1]
