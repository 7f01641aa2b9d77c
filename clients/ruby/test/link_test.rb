# frozen_string_literal: true

require "world"

# Connections on virtual time.
class LinkTest < Minitest::Test
  include Ticketing

  def test_two_connections_for_a_single_address
    world = World.new
    assert_equal 2, world.connects.size
    world.up
    world.acquire("a")
    world.acquire("b")
    assert_equal world.links.to_set, world.sent.to_set(&:first)
  end

  def test_back_off
    world = World.new
    link = world.links[0]
    times = Array.new(8) do
      at = world.now
      epoch = link.epoch
      world.cut(link)
      world.pass(0.1) while link.epoch == epoch
      at
    end
    pauses = times.each_cons(2).map { |earlier, later| (later - earlier).round(3) }
    assert_equal [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2], pauses
  end

  def test_back_off_starts_again_after_a_long_session_only
    { 0.9 => 0.4, 1.0 => 0.1 }.each do |lasted, pause|
      world = World.new
      link = world.links[0]
      2.times do
        world.cut(link)
        world.pass(0.2)
      end
      world.up(link)
      world.pass(lasted)
      epoch = link.epoch
      world.cut(link)
      world.pass(pause - 0.01)
      assert_equal epoch, link.epoch
      world.pass(0.02)
      assert_equal epoch + 1, link.epoch
    end
  end

  def test_connecting_and_shaking_hands_take_no_longer_than_allowed
    world = World.new
    one, other = world.links
    other.connected(other.epoch, world.now)
    world.pass(5)
    assert_equal [one], world.disconnects
    world.pass(5)
    assert_includes world.disconnects, other
  end

  def test_a_bad_handshake_ends_the_connection
    ["HTTP/1.1 400 Bad Request\r\n\r\n", Server.hello(1, 0), Server.hello(0, 0),
     "#{Server.hello}\2"].each do |data|
      world = World.new
      link = world.links[0]
      link.connected(link.epoch, world.now)
      world.feed(link, data)
      assert_equal [link], world.disconnects
      world.pass(0.1)
      assert_equal 2, world.connects.count(link)
    end
  end

  def test_a_fault_loses_sent_requests_and_moves_unsent_ones
    world = World.single
    sent = world.acquire("sent")
    link, = world.one
    world.acquire("elsewhere")
    world.acquire("queued")
    world.reply(link, "A", 9, 1)
    assert_equal [link], world.disconnects
    assert_instance_of IndeterminateError, sent.outcome
    assert_equal [["elsewhere"], ["queued"]], world.sent.map { |_, request| request.keys }.sort
  end

  def test_requests_that_the_socket_did_not_take_move_on
    size = Wire.acquire_frame(1, 10, 30, ["k0"]).bytesize
    { 0 => 2, 1 => 2, size - 1 => 2, size => 1, (2 * size) - 1 => 1, 2 * size => 0 }.each do |untaken, lost|
      world = World.single
      world.cut(world.links[1])
      calls = [world.acquire("k0"), world.acquire("k1")]
      link = world.links[0]
      assert_equal 2 * size, link.output(link.epoch, world.now).bytesize
      link.lost(link.epoch, "reset", world.now, untaken)
      assert_equal lost, calls.map(&:outcome).grep(IndeterminateError).size, "#{untaken} bytes untaken"
      world.up(world.links[1].tap { world.pass(0.1) })
      assert_equal 2 - lost, world.sent.size
    end
  end

  def test_what_is_said_of_an_earlier_connection_is_ignored
    world = World.single
    link = world.links[0]
    old = link.epoch
    world.cut(link)
    world.pass(0.1)
    link.received(old, "garbage".b, world.now)
    link.lost(old, "again", world.now)
    assert_empty link.output(old, world.now)
    world.up(link)
  end

  def test_an_unanswering_server_is_left
    world = World.single(release_queue_limit: 16_384)
    world.cut(world.links[1])
    (1..16_384).each { |token| world.release(token) }
    3.times do
      world.sent
      world.pass(2.05)
    end
    assert_includes world.disconnects, world.links[0]
  end

  def test_round_robin_without_a_leader
    world = World.cluster
    %w[a b c d e f].each { |key| world.acquire(key) }
    assert_equal [0, 0, 1, 1, 2, 2], world.sent.map { |link, _| link.slot }.sort
  end

  def test_follows_the_leader
    world = World.cluster
    world.acquire("k")
    link, request = world.one
    leader = (link.slot + 1) % 3
    world.reply(link, "M", request.request_id, leader)
    world.pass(0.01)
    3.times { world.acquire("more") }
    assert_equal [leader], world.sent.map { |at, _| at.slot }.uniq
    world.reply(world.links[0], "L", 0, 2)
    world.acquire("k")
    assert_equal 2, world.one[0].slot
    world.reply(world.links[0], "L", 0, 255)
    3.times { world.acquire("k") }
    assert_equal [0, 1, 2], world.sent.map { |at, _| at.slot }.sort
  end

  def test_a_lost_leader_is_forgotten
    world = World.cluster
    world.reply(world.links[0], "L", 0, 1)
    world.cut(world.links[1])
    world.pass(0.1)
    world.up(world.links[1])
    3.times { world.acquire("k") }
    assert_equal [0, 1, 2], world.sent.map { |at, _| at.slot }.sort
  end

  def test_a_leader_that_says_it_is_none_is_forgotten
    [3, 4].each do |code|
      world = World.cluster
      world.reply(world.links[0], "L", 0, 1)
      world.acquire("k")
      link, request = world.one
      world.reply(link, "E", request.request_id, code)
      3.times { world.acquire("k") }
      answers = world.sent
      assert_equal [0, 1, 2], answers.map { |at, _| at.slot }.sort
      # From another node it says nothing of the leader.
      world.reply(world.links[0], "L", 0, 1)
      other, answer = answers.find { |at, _| at.slot == 2 }
      world.reply(other, "E", answer.request_id, code)
      3.times { world.acquire("k") }
      assert_equal([1, 1, 1], world.sent.map { |at, _| at.slot })
    end
  end

  def test_a_leader_that_is_not_usable_is_passed_over
    world = World.cluster
    world.cut(world.links[1])
    world.reply(world.links[0], "L", 0, 1)
    world.acquire("k")
    refute_equal 1, world.one[0].slot
  end

  def test_timers_forget_cancelled_deadlines
    timers = Timers.new
    owner = Struct.new(:timer, :fired) { define_method(:expired) { |now| self.fired = now } }
    owners = Array.new(1000) { owner.new }
    owners.shuffle.each_with_index { |each, index| timers.set(each, index * 7 % 1000) }
    owners.each { |each| timers.set(each, 5.0) }
    assert_operator timers.instance_variable_get(:@entries).size, :<=, 2065
    timers.expire(4.9)
    assert_empty(owners.select(&:fired))
    timers.expire(5.0)
    assert(owners.all? { |each| each.fired == 5.0 })
    assert_nil timers.next
  end
end
