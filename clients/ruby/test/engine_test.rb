# frozen_string_literal: true

require "world"

# Calls on virtual time: every outcome of clients/BEHAVIOUR.md.
class EngineTest < Minitest::Test
  include Ticketing

  def test_acquire_and_release
    world = World.single
    call = world.acquire("k")
    world.now += 0.25 # Queued this long before it is sent.
    link, request = world.one
    assert_equal ["A", 1, ["k"], 10, 30, 0], request.to_a
    sent_at = world.now
    world.now += 2
    world.reply(link, "A", 1, (2**64) - 1)
    assert_equal Grant.new((2**64) - 1, sent_at + 30), call.outcome
    release = world.release((2**64) - 1)
    link, request = world.one
    assert_equal ["R", ["k"], (2**64) - 1], [request.op, request.keys, request.token]
    world.reply(link, "R", request.request_id)
    assert_equal true, release.outcome
    assert_equal 0, world.engine.pending_count
  end

  def test_a_set_is_one_request
    world = World.single
    call = world.acquire("b", "a", "b")
    link, request = world.one
    assert_equal ["S", %w[a b]], [request.op, request.keys]
    world.reply(link, "S", 1, 3)
    assert_instance_of Grant, call.outcome
  end

  def test_definite_answers
    { ["T", 0] => TimeoutError, ["B", 0] => BusyError, ["I", 0] => IndeterminateError,
      ["E", 1] => RejectedError, ["E", 2] => RejectedError }.each do |(op, value), error|
      world = World.single
      call = world.acquire("k")
      link, request = world.one
      world.reply(link, op, request.request_id, value)
      assert_instance_of error, call.outcome
      assert_equal value, call.outcome.code if error == RejectedError
    end
  end

  def test_what_the_server_did_not_take_is_retried_within_the_wait
    [["M", 255], ["E", 3], ["E", 4]].each do |op, value|
      world = World.single
      call = world.acquire("k", wait: 1)
      began = world.now
      times = []
      until call.outcome
        world.sent.each do |link, request|
          times << (world.now - began).round(3)
          assert_equal 1, request.wait
          world.reply(link, op, request.request_id, value)
        end
        world.pass_to_next
      end
      assert_equal [0, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35], times.first(7)
      assert_instance_of NoLeaderError, call.outcome
      assert_in_delta 1, world.now - began
    end
  end

  def test_the_wait_sent_is_what_is_left_rounded_up
    world = World.new
    call = world.acquire("k", wait: 2.5) # Rounded up to 3.
    world.pass(1.5)
    world.up
    link, request = world.one
    assert_equal 2, request.wait
    world.reply(link, "T", request.request_id)
    assert_instance_of TimeoutError, call.outcome
  end

  def test_an_undelayed_wait_is_sent_exactly
    [1, 255].each do |wait|
      world = World.single
      world.now = 1_000_000.1 # Where sums of floats are coarse.
      world.acquire("k", wait: wait)
      assert_equal wait, world.one[1].wait
    end
  end

  def test_a_call_with_nothing_left_sends_nothing
    world = World.single
    call = world.acquire("k", wait: 1)
    world.now += 1.5 # Nobody took the output, nor looked at the timers.
    assert_empty world.sent
    assert_instance_of TimeoutError, call.outcome
  end

  def test_an_immediate_try_looks_for_a_server_for_five_seconds
    world = World.new
    call = world.acquire("k", wait: 0)
    world.pass(4.9)
    assert_nil call.outcome
    world.pass(0.1)
    assert_instance_of NotConnectedError, call.outcome
  end

  def test_lost_after_sent_is_indeterminate_and_never_resent
    world = World.single
    call = world.acquire("k")
    world.cut(world.one[0])
    assert_instance_of IndeterminateError, call.outcome
    world.pass(20)
    assert_empty world.sent
    assert_equal 0, world.engine.pending_count
  end

  def test_lost_while_queued_moves_on
    world = World.single
    call = world.acquire("k")
    queued = world.engine.writable.keys.first
    world.cut(queued)
    assert_nil call.outcome
    link, request = world.one # Without a pause.
    refute_same queued, link
    world.reply(link, "A", request.request_id, 5)
    assert_instance_of Grant, call.outcome
  end

  def test_without_an_answer_it_is_indeterminate_and_a_silent_connection_is_closed
    world = World.single
    world.pass(1)
    call = world.acquire("k", wait: 2)
    link, = world.one
    world.pass(6.9)
    assert_nil call.outcome
    world.pass(0.1)
    assert_instance_of IndeterminateError, call.outcome
    assert_equal [link], world.disconnects
    assert_equal 0, world.engine.pending_count
  end

  def test_a_grant_after_the_grace_is_released
    world = World.single
    call = world.acquire("k", wait: 2)
    link, request = world.one
    # The connection is not silent: something else is answered on it.
    world.acquire("elsewhere")
    world.acquire("other")
    _, other = world.sent.find { |at, _| at.equal?(link) }
    world.reply(link, "T", other.request_id)
    world.pass(7)
    assert_instance_of IndeterminateError, call.outcome
    assert_empty world.disconnects
    world.reply(link, "A", request.request_id, 8)
    assert_includes world.sent.map { |_, sent| [sent.op, sent.token] }, ["R", 8]
  end

  def test_disowned_while_queued_is_never_sent
    world = World.single
    call = world.acquire("k")
    call.disown(world.now)
    assert_instance_of CancelledError, call.outcome
    assert_empty world.sent
    assert_equal 0, world.engine.pending_count
  end

  def test_disowned_after_sent_leaves_a_tombstone
    world = World.single(pending_limit: 1)
    call = world.acquire("k")
    link, request = world.one
    call.disown(world.now)
    assert_instance_of ClientCapacityError, world.acquire("k2").outcome
    world.reply(link, "A", request.request_id, 77)
    _, release = world.one
    assert_equal ["R", ["k"], 77], [release.op, release.keys, release.token]
    assert_nil world.acquire("k2").outcome
  end

  def test_a_tombstone_ends_with_its_connection
    world = World.single(pending_limit: 1)
    call = world.acquire("k")
    link, = world.one
    call.disown(world.now)
    world.cut(link)
    assert_equal 0, world.engine.pending_count
  end

  def test_a_caller_who_is_gone_disowns_even_a_grant
    world = World.single
    call = world.acquire("k")
    link, request = world.one
    world.reply(link, "A", request.request_id, 6)
    call.disown(world.now)
    assert_equal 6, world.one[1].token
  end

  def test_too_little_lease_left
    { 2 => Grant, 2.1 => InsufficientLeaseError }.each do |late, outcome|
      world = World.single
      call = world.acquire("k", lease: 10, budget: 8)
      link, request = world.one
      world.pass(late)
      world.reply(link, "A", request.request_id, 6)
      assert_instance_of outcome, call.outcome
      assert_equal 6, world.one[1].token if outcome == InsufficientLeaseError
    end
  end

  def test_the_wait_is_over_without_a_connection
    world = World.new
    call = world.acquire("k", wait: 3)
    ready = world.ready(2)
    world.links.each { |link| link.lost(link.epoch, "refused", world.now) }
    world.pass(3)
    assert_instance_of NotConnectedError, call.outcome
    assert_instance_of NotConnectedError, ready.outcome
    assert_match(/refused/, ready.outcome.message)
  end

  def test_a_refused_token_is_remembered_until_one_is_accepted
    world = World.new
    call = world.acquire("k", wait: 3)
    world.links.each do |link|
      link.connected(link.epoch, world.now)
      world.feed(link, Server.hello)
      link.output(link.epoch, world.now)
      world.feed(link, "\0")
    end
    world.pass(3)
    assert_instance_of UnauthorizedError, call.outcome
    world.up(world.links[0])
    assert_equal true, world.ready(0).outcome
  end

  def test_the_pending_limit
    world = World.single(pending_limit: 2)
    calls = [world.acquire("a"), world.acquire("b")]
    assert_instance_of ClientCapacityError, world.acquire("c").outcome
    world.sent.each { |link, request| world.reply(link, "T", request.request_id) }
    calls.each { |call| assert_instance_of TimeoutError, call.outcome }
    assert_nil world.acquire("c").outcome
  end

  # Release.

  def test_release_answers
    { "R" => true, "N" => false }.each do |op, outcome|
      world = World.single
      call = world.release
      link, request = world.one
      world.reply(link, op, request.request_id)
      assert_equal outcome, call.outcome
    end
  end

  def test_release_refused
    world = World.single
    call = world.release
    link, request = world.one
    world.reply(link, "E", request.request_id, 6)
    assert_equal :group_mismatch, RejectedError::CODES.fetch(call.outcome.code)
  end

  def test_release_is_sent_again_elsewhere
    world = World.single
    call = world.release
    [["M", 255], ["I", 0], ["E", 3], ["E", 4]].each do |op, value|
      link, request = world.one
      world.reply(link, op, request.request_id, value)
      world.pass(0.009)
      assert_empty world.sent
      world.pass(0.1)
    end
    world.cut(world.one[0])
    world.pass(0.1)
    link, request = world.one
    world.reply(link, "R", request.request_id)
    assert_equal true, call.outcome
  end

  def test_release_without_an_answer_is_sent_again_after_two_seconds
    world = World.single
    call = world.release
    first, request = world.one
    world.pass(1.9)
    assert_empty world.sent
    world.pass(0.1)
    second, = world.one
    refute_same first, second
    world.pass(2)
    world.one # Both are silent: on either.
    world.reply(first, "R", request.request_id) # A late answer is still valid.
    assert_equal true, call.outcome
    world.pass(10)
    assert_empty world.sent
  end

  def test_the_release_window
    world = World.single
    call = world.release
    world.sent
    world.pass(4.9)
    assert_nil call.outcome
    world.pass(0.1)
    assert_instance_of ReleaseUnconfirmedError, call.outcome
  end

  def test_release_waits_for_a_connection
    world = World.new
    call = world.release
    world.pass(1)
    world.up(world.links[0])
    link, request = world.one
    world.reply(link, "R", request.request_id)
    assert_equal true, call.outcome
  end

  def test_the_release_limit
    world = World.single(release_queue_limit: 1)
    world.release(1)
    assert_instance_of ClientCapacityError, world.release(2).outcome
    link, request = world.one
    world.reply(link, "R", request.request_id)
    assert_nil world.release(2).outcome
  end

  # Closing.

  def test_close
    world = World.single
    sent = world.acquire("sent")
    link, request = world.one
    queued = world.acquire("queued")
    release = world.release(1)
    world.engine.close(world.now)
    assert_instance_of IndeterminateError, sent.outcome
    assert_instance_of ClosedError, queued.outcome
    assert_instance_of ClosedError, world.acquire("k").outcome
    assert_instance_of ClosedError, world.release(2).outcome
    world.reply(link, "A", request.request_id, 3) # Released while the broker drains.
    answers = world.sent
    assert_equal([1, 3], answers.map { |_, answer| answer.token }.sort)
    answers.each do |releasing, answer|
      refute_predicate world.engine, :closed?
      world.reply(releasing, "R", answer.request_id)
    end
    assert_predicate world.engine, :closed?
    assert_equal true, release.outcome
    assert_equal world.links.to_set, world.disconnects.to_set
    world.engine.close(world.now)
  end

  def test_close_gives_up_after_five_seconds
    world = World.single
    release = world.release(1)
    world.sent
    world.pass(3)
    world.engine.close(world.now)
    world.pass(5)
    assert_predicate world.engine, :closed?
    assert_instance_of ReleaseUnconfirmedError, release.outcome
  end

  def test_close_ends_those_who_wait_for_a_connection
    world = World.new
    ready = world.ready(100)
    call = world.acquire("k")
    world.engine.close(world.now)
    assert_instance_of ClosedError, ready.outcome
    assert_instance_of ClosedError, call.outcome
    assert_predicate world.engine, :closed?
    assert_nil world.engine.timers.next
  end
end
