"""The engine on virtual time: every outcome of clients/BEHAVIOUR.md."""

import itertools

import pytest

import ticketing
from support import World, hello, settings
from ticketing import RejectionCode
from ticketing._calls import Grant
from ticketing._limits import Timing


def single(**changes: object) -> World:
    return World(settings(**changes)).up()


def test_acquire_and_release() -> None:
    world = single()
    call = world.acquire("k")
    world.now += 0.25  # Queued this long before it is sent.
    link, request = world.one()
    assert (request.op, request.request_id, request.wait, request.lease) == ("A", 1, 10, 30)
    sent_at = world.now
    world.now += 2
    world.reply(link, "A", 1, 2**64 - 1)
    assert call.outcome == Grant(2**64 - 1, sent_at + 30)
    release = world.release(2**64 - 1)
    link, request = world.one()
    assert (request.op, request.token, request.keys) == ("R", 2**64 - 1, (b"k",))
    world.reply(link, "R", request.request_id)
    assert release.outcome is True
    assert world.engine.pending_count == 0


def test_a_set_is_one_request() -> None:
    world = single()
    call = world.acquire("b", "a", "b")
    link, request = world.one()
    assert (request.op, request.keys) == ("S", (b"a", b"b"))
    world.reply(link, "S", 1, 3)
    assert isinstance(call.outcome, Grant)


@pytest.mark.parametrize(
    ("op", "value", "error"),
    [
        ("T", 0, ticketing.TimeoutError),
        ("B", 0, ticketing.BusyError),
        ("I", 0, ticketing.IndeterminateError),
        ("E", 1, ticketing.RejectedError),
        ("E", 2, ticketing.RejectedError),
    ],
)
def test_definite_answers(op: str, value: int, error: type[Exception]) -> None:
    world = single()
    call = world.acquire("k")
    link, request = world.one()
    world.reply(link, op, request.request_id, value)
    assert isinstance(call.outcome, error)
    if isinstance(call.outcome, ticketing.RejectedError):
        assert call.outcome.code is RejectionCode(value)


@pytest.mark.parametrize(("op", "value"), [("M", 255), ("E", 3), ("E", 4)])
def test_what_the_server_did_not_take_is_retried_within_the_wait(op: str, value: int) -> None:
    world = single()
    call = world.acquire("k", wait=1)
    times, waits = [], []
    began = world.now
    while call.outcome is None:
        for link, request in world.sent():
            times.append(round(world.now - began, 3))
            waits.append(request.wait)
            world.reply(link, op, request.request_id, value)
        at = world.engine.timers.next()
        assert at is not None
        world.pass_time(at - world.now)
    assert times[:7] == [0, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35]
    assert set(waits) == {1}
    assert isinstance(call.outcome, ticketing.NoLeaderError)
    assert world.now - began == pytest.approx(1)


def test_the_wait_sent_is_what_is_left_rounded_up() -> None:
    world = World()
    call = world.acquire("k", wait=2.5)  # Rounded up to 3.
    world.pass_time(1.5)
    world.up(*(link for link in world.engine.links))
    link, request = world.one()
    assert request.wait == 2
    world.reply(link, "T", request.request_id)
    assert isinstance(call.outcome, ticketing.TimeoutError)


@pytest.mark.parametrize("wait", [1, 255])
def test_an_undelayed_wait_is_sent_exactly(wait: int) -> None:
    world = single()
    world.now = 1_000_000.1  # Where sums of floats are coarse.
    world.acquire("k", wait=wait)
    assert world.one()[1].wait == wait


def test_a_call_with_nothing_left_sends_nothing() -> None:
    world = single()
    call = world.acquire("k", wait=1)
    world.now += 1.5  # Nobody took the output, nor called tick.
    assert world.sent() == []
    assert isinstance(call.outcome, ticketing.TimeoutError)


def test_an_immediate_try_looks_for_a_server_for_five_seconds() -> None:
    world = World()
    call = world.acquire("k", wait=0)
    world.pass_time(4.9)
    assert call.outcome is None
    world.pass_time(0.1)
    assert isinstance(call.outcome, ticketing.NotConnectedError)


def test_lost_after_sent_is_indeterminate_and_never_resent() -> None:
    world = single()
    call = world.acquire("k")
    link, _ = world.one()
    world.cut(link)
    assert isinstance(call.outcome, ticketing.IndeterminateError)
    world.pass_time(20)
    assert world.sent() == []
    assert world.engine.pending_count == 0


def test_lost_while_queued_moves_on() -> None:
    world = single()
    call = world.acquire("k")
    queued = next(link for link in world.engine.links if link._queue)
    world.cut(queued)
    assert call.outcome is None
    link, request = world.one()  # Without a pause.
    assert link is not queued
    world.reply(link, "A", request.request_id, 5)
    assert isinstance(call.outcome, Grant)


def test_without_an_answer_it_is_indeterminate_and_a_silent_connection_is_closed() -> None:
    world = single()
    world.pass_time(1)
    call = world.acquire("k", wait=2)
    link, _ = world.one()
    world.pass_time(6.9)
    assert call.outcome is None
    world.pass_time(0.1)
    assert isinstance(call.outcome, ticketing.IndeterminateError)
    assert world.disconnects == [link]
    assert world.engine.pending_count == 0


def test_a_grant_after_the_grace_is_released() -> None:
    world = single()
    call = world.acquire("k", wait=2)
    link, request = world.one()
    # The connection is not silent: something else is answered on it.
    world.acquire("elsewhere")
    world.acquire("other")
    answers = [(at, other) for at, other in world.sent() if at is link]
    world.reply(link, "T", answers[0][1].request_id)
    world.pass_time(7)
    assert isinstance(call.outcome, ticketing.IndeterminateError)
    assert world.disconnects == []
    world.reply(link, "A", request.request_id, 8)
    assert ("R", 8) in [(request.op, request.token) for _, request in world.sent()]


def test_cancelled_while_queued_is_never_sent() -> None:
    world = single()
    call = world.acquire("k")
    call.cancel()
    assert isinstance(call.outcome, ticketing.CancelledError)
    assert world.sent() == []
    assert world.engine.pending_count == 0


def test_cancelled_after_sent_leaves_a_tombstone() -> None:
    world = single(pending_limit=1)
    call = world.acquire("k")
    link, request = world.one()
    call.cancel()
    assert isinstance(call.outcome, ticketing.CancelledError)
    with pytest.raises(ticketing.ClientCapacityError):
        world.acquire("k2")
    world.reply(link, "A", request.request_id, 77)
    _, release = world.one()
    assert (release.op, release.token, release.keys) == ("R", 77, (b"k",))
    world.acquire("k2")


def test_a_tombstone_ends_with_its_connection() -> None:
    world = single(pending_limit=1)
    call = world.acquire("k")
    link, _ = world.one()
    call.cancel()
    world.cut(link)
    assert world.engine.pending_count == 0


def test_a_caller_who_is_gone_disowns_even_a_grant() -> None:
    world = single()
    call = world.acquire("k")
    link, request = world.one()
    world.reply(link, "A", request.request_id, 6)
    call.disown(world.now)
    assert world.one()[1].token == 6


def test_too_little_lease_left() -> None:
    world = single()
    call = world.acquire("k", lease=10, budget=8)
    link, request = world.one()
    world.pass_time(2)
    world.reply(link, "A", request.request_id, 5)
    assert isinstance(call.outcome, Grant)
    call = world.acquire("k", lease=10, budget=8)
    link, request = world.one()
    world.pass_time(2.1)
    world.reply(link, "A", request.request_id, 6)
    assert isinstance(call.outcome, ticketing.InsufficientLeaseError)
    assert world.one()[1].token == 6


def test_the_wait_is_over_without_a_connection() -> None:
    world = World()
    call = world.acquire("k", wait=3)
    ready = world.ready(2)
    for link in world.engine.links:
        link.lost(link.epoch, "refused", world.now)
    world.pass_time(3)
    assert isinstance(ready.outcome, ticketing.NotConnectedError)
    assert isinstance(call.outcome, ticketing.NotConnectedError)
    assert "refused" in str(ready.outcome)


def test_a_refused_token_is_remembered_until_one_is_accepted() -> None:
    world = World()
    call, ready = world.acquire("k", wait=3), world.ready(2)
    for link in world.engine.links:
        link.connected(link.epoch, world.now)
        world.feed(link, hello())
        link.output(link.epoch, world.now)
        world.feed(link, b"\x00")
    world.pass_time(3)
    assert isinstance(ready.outcome, ticketing.UnauthorizedError)
    assert isinstance(call.outcome, ticketing.UnauthorizedError)
    world.up(world.engine.links[0])
    ready = world.ready(0)
    assert ready.outcome is True


def test_the_pending_limit() -> None:
    world = single(pending_limit=2)
    calls = [world.acquire("a"), world.acquire("b")]
    with pytest.raises(ticketing.ClientCapacityError):
        world.acquire("c")
    for link, request in world.sent():
        world.reply(link, "T", request.request_id)
    assert all(isinstance(call.outcome, ticketing.TimeoutError) for call in calls)
    world.acquire("c")


# Release.


@pytest.mark.parametrize(("op", "outcome"), [("R", True), ("N", False)])
def test_release_answers(op: str, outcome: bool) -> None:
    world = single()
    call = world.release()
    link, request = world.one()
    world.reply(link, op, request.request_id)
    assert call.outcome is outcome


def test_release_refused() -> None:
    world = single()
    call = world.release()
    link, request = world.one()
    world.reply(link, "E", request.request_id, 6)
    assert isinstance(call.outcome, ticketing.RejectedError)
    assert call.outcome.code is RejectionCode.GROUP_MISMATCH


def test_release_is_sent_again_elsewhere() -> None:
    world = single()
    call = world.release()
    for op, value in [("M", 255), ("I", 0), ("E", 3), ("E", 4)]:
        link, request = world.one()
        world.reply(link, op, request.request_id, value)
        world.pass_time(0.009)
        assert world.sent() == []
        world.pass_time(0.1)
    link, _ = world.one()
    world.cut(link)
    world.pass_time(0.1)
    link, request = world.one()
    world.reply(link, "R", request.request_id)
    assert call.outcome is True


def test_release_without_an_answer_is_sent_again_after_two_seconds() -> None:
    world = single()
    call = world.release()
    first, request = world.one()
    world.pass_time(1.9)
    assert world.sent() == []
    world.pass_time(0.1)
    second, _ = world.one()
    assert second is not first
    world.pass_time(2)
    world.one()  # Both are silent: on either.
    world.reply(first, "R", request.request_id)  # A late answer is still valid.
    assert call.outcome is True
    world.pass_time(10)
    assert world.sent() == []


def test_the_release_window() -> None:
    world = single()
    call = world.release()
    world.sent()
    world.pass_time(4.9)
    assert call.outcome is None
    world.pass_time(0.1)
    assert isinstance(call.outcome, ticketing.ReleaseUnconfirmedError)


def test_release_waits_for_a_connection() -> None:
    world = World()
    call = world.release()
    world.pass_time(1)
    world.up(world.engine.links[0])
    link, request = world.one()
    world.reply(link, "R", request.request_id)
    assert call.outcome is True


def test_the_release_limit() -> None:
    world = single(release_queue_limit=1)
    world.release(1)
    with pytest.raises(ticketing.ClientCapacityError):
        world.release(2)
    link, request = world.one()
    world.reply(link, "R", request.request_id)
    world.release(2)


# Links.


def test_two_connections_for_a_single_address() -> None:
    world = World()
    assert len(world.connects) == 2
    world.up()
    world.acquire("a")
    world.acquire("b")
    assert {link for link, _ in world.sent()} == set(world.engine.links)


def test_back_off() -> None:
    world = World()
    link = world.engine.links[0]
    times = []
    for _ in range(8):
        times.append(world.now)
        epoch = link.epoch
        world.cut(link)
        while link.epoch == epoch:
            world.pass_time(0.1)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2], abs=0.001)


def test_back_off_starts_again_after_a_long_session_only() -> None:
    for lasted, pause in [(0.9, 0.4), (1.0, 0.1)]:
        world = World(timing=Timing())
        link = world.engine.links[0]
        for _ in range(2):
            world.cut(link)
            world.pass_time(0.2)
        world.up(link)
        world.pass_time(lasted)
        epoch = link.epoch
        world.cut(link)
        world.pass_time(pause - 0.01)
        assert link.epoch == epoch
        world.pass_time(0.02)
        assert link.epoch == epoch + 1


def test_connecting_and_shaking_hands_take_no_longer_than_allowed() -> None:
    world = World()
    one, other = world.engine.links
    other.connected(other.epoch, world.now)
    world.pass_time(5)
    assert world.disconnects == [one]
    world.pass_time(5)
    assert other in world.disconnects


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="garbage"),
        pytest.param(hello(1, 0), id="cluster"),
        pytest.param(hello(0, 0), id="slot"),
        pytest.param(hello() + b"\x02", id="verdict"),
    ],
)
def test_a_bad_handshake_ends_the_connection(data: bytes) -> None:
    world = World()
    link = world.engine.links[0]
    link.connected(link.epoch, world.now)
    world.feed(link, data)
    assert world.disconnects == [link]
    world.pass_time(0.1)
    assert [link for _, link in world.connects].count(link) == 2


def test_a_fault_loses_sent_requests_and_moves_unsent_ones() -> None:
    world = single()
    sent = world.acquire("sent")
    link, _ = world.one()
    world.acquire("elsewhere")
    queued = world.acquire("queued")
    assert queued in [request.call for request in link._queue]
    world.reply(link, "A", 9, 1)
    assert world.disconnects == [link]
    assert isinstance(sent.outcome, ticketing.IndeterminateError)
    assert {request.keys for _, request in world.sent()} == {(b"elsewhere",), (b"queued",)}


def test_what_is_said_of_an_earlier_connection_is_ignored() -> None:
    world = single()
    link = world.engine.links[0]
    old = link.epoch
    world.cut(link)
    world.pass_time(0.1)
    link.received(old, b"garbage", world.now)
    link.lost(old, "again", world.now)
    assert link.output(old, world.now) == b""
    world.up(link)


def test_an_unanswering_server_is_left() -> None:
    world = single(pending_limit=16_384, release_queue_limit=16_384)
    world.cut(world.engine.links[1])
    for _ in range(3):
        for token in range(1, 16_385):
            if len(world.engine._releases) < 16_384:
                world.release(token)
        world.sent()
        world.pass_time(2.05)
    assert world.engine.links[0] in world.disconnects


# The leader.


def test_round_robin_without_a_leader() -> None:
    world = World.cluster()
    for key in "abcdef":
        world.acquire(key)
    links = [link for link, _ in world.sent()]
    assert sorted(link.slot or 0 for link in links) == [0, 0, 1, 1, 2, 2]


def test_follows_the_leader() -> None:
    world = World.cluster()
    world.acquire("k")
    link, request = world.one()
    leader = (int(link.slot or 0) + 1) % 3
    world.reply(link, "M", request.request_id, leader)
    world.pass_time(0.01)
    for _ in range(3):
        world.acquire("more")
    assert {link.slot for link, _ in world.sent()} == {leader}
    world.reply(world.engine.links[0], "L", 0, 2)
    world.acquire("k")
    assert world.one()[0].slot == 2
    world.reply(world.engine.links[0], "L", 0, 255)
    assert world.engine._leader is None


@pytest.mark.parametrize("code", [3, 4])
def test_a_leader_that_says_it_is_none_is_forgotten(code: int) -> None:
    world = World.cluster()
    world.reply(world.engine.links[0], "L", 0, 1)
    world.acquire("k")
    link, request = world.one()
    world.reply(link, "E", request.request_id, code)
    assert world.engine._leader is None
    # From another node it says nothing of the leader.
    world.acquire("k")
    link, request = world.one()
    world.reply(world.engine.links[0], "L", 0, (int(link.slot or 0) + 1) % 3)
    world.reply(link, "E", request.request_id, code)
    assert world.engine._leader is not None


def test_a_lost_leader_is_forgotten() -> None:
    world = World.cluster()
    world.reply(world.engine.links[0], "L", 0, 1)
    world.cut(world.engine.links[2])
    assert world.engine._leader == 1
    world.cut(world.engine.links[1])
    assert world.engine._leader is None


def test_a_leader_that_is_not_usable_is_passed_over() -> None:
    world = World.cluster()
    world.cut(world.engine.links[1])
    world.reply(world.engine.links[0], "L", 0, 1)
    world.acquire("k")
    assert world.one()[0].slot != 1


# Closing.


def test_close() -> None:
    world = single()
    sent = world.acquire("sent")
    link, request = world.one()
    queued = world.acquire("queued")
    release = world.release(1)
    world.engine.close(world.now)
    assert isinstance(sent.outcome, ticketing.IndeterminateError)
    assert isinstance(queued.outcome, ticketing.ClosedError)
    with pytest.raises(ticketing.ClosedError):
        world.acquire("k")
    with pytest.raises(ticketing.ClosedError):
        world.release(2)
    world.reply(link, "A", request.request_id, 3)  # Released while the broker drains.
    answers = {request.token: (link, request.request_id) for link, request in world.sent()}
    assert set(answers) == {1, 3}
    for releasing, request_id in answers.values():
        assert not world.closed
        world.reply(releasing, "R", request_id)
    assert world.closed
    assert release.outcome is True
    assert set(world.disconnects) == set(world.engine.links)
    world.engine.close(world.now)


def test_close_gives_up_after_five_seconds() -> None:
    world = single()
    release = world.release(1)
    world.sent()
    world.pass_time(3)
    world.engine.close(world.now)
    world.pass_time(5)
    assert world.closed
    assert isinstance(release.outcome, ticketing.ReleaseUnconfirmedError)


def test_close_ends_those_who_wait_for_a_connection() -> None:
    world = World()
    ready, call = world.ready(100), world.acquire("k")
    world.engine.close(world.now)
    world.pump()
    assert isinstance(ready.outcome, ticketing.ClosedError)
    assert isinstance(call.outcome, ticketing.ClosedError)
    assert world.closed
    assert world.engine.timers.next() is None
