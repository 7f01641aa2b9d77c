# frozen_string_literal: true

require "scripted"

# The whole client against a scripted server on a real socket.
class BrokerTest < Minitest::Test
  include Ticketing

  def setup
    @threads = Thread.list.size
    @script = Script.new
    @broker = Broker.new(@script.address, timing: Script::QUICK)
    2.times { @script.accept }
    @broker.ready(Server::PATIENCE)
  end

  def teardown
    @broker.close
    @script.close
    assert_equal @threads, Thread.list.size, "threads are left behind"
  end

  # Calls something that blocks.
  def start(&work)
    thread = Thread.new(&work)
    thread.report_on_exception = false
    thread
  end

  def value(thread)
    assert thread.join(Server::PATIENCE), "the call did not return"
    thread.value
  end

  def acquire
    start { @broker.acquire("k", wait: 5, lease: 30) }
  end

  def hold(token = 41)
    call = acquire
    @script.answer("A", token)
    value(call)
  end

  def test_the_block_form
    call = start do
      @broker.acquire("k", wait: 5, lease: 30) do |ticket|
        assert_in_delta 30, ticket.remaining, 1
        [ticket.key, ticket.token]
      end
    end
    assert_equal 5, @script.answer("A", 9).wait
    assert_equal 9, @script.answer("R").token
    assert_equal ["k", 9], value(call)
  end

  def test_the_error_of_the_block_passes_and_the_lock_is_released
    call = start { @broker.acquire("k", wait: 5, lease: 30) { raise KeyError } }
    @script.answer("A", 9)
    @script.answer("N") # What the release says is not reported.
    assert_raises(KeyError) { value(call) }
  end

  def test_a_set
    call = start { @broker.acquire_set(%w[ü b a], wait: 0, lease: 1) }
    assert_equal %w[a b ü].map(&:b), @script.answer("S", 3).keys
    ticket = value(call)
    assert_equal %w[a b ü], ticket.keys
    assert_equal Domain.new, ticket.domain
    ticket.abandon
    assert_equal 3, @script.answer("G").token
    assert_equal true, ticket.release
  end

  def test_a_timeout_releases_the_late_grant
    call = start { Timeout.timeout(0.05) { @broker.acquire("k", wait: 5, lease: 30) } }
    peer, request = @script.next
    assert_raises(Timeout::Error) { value(call) }
    peer.reply("A", request.request_id, 7)
    assert_equal 7, @script.answer("R").token
  end

  def test_killing_a_thread_releases_the_late_grant
    call = acquire
    peer, request = @script.next
    call.kill
    call.join
    peer.reply("A", request.request_id, 7)
    assert_equal 7, @script.answer("R").token
  end

  def test_killing_a_thread_in_the_block_releases_the_lock
    inside = Thread::Queue.new
    call = start do
      @broker.acquire("k", wait: 5, lease: 30) do
        inside << true
        sleep
      end
    end
    @script.answer("A", 7)
    inside.pop
    call.kill
    assert_equal 7, @script.answer("R").token
    call.join
  end

  def test_cancelling_a_thread
    call = acquire
    @script.next
    call.raise(CancelledError)
    assert_raises(CancelledError) { value(call) }
  end

  def test_release_outcomes
    { "R" => true, "N" => false }.each do |op, outcome|
      ticket = hold
      call = start { ticket.release }
      @script.answer(op)
      assert_equal outcome, value(call)
      assert_equal outcome, ticket.release
    end
    ticket = hold
    call = start { ticket.release }
    @script.answer("E", 6)
    assert_equal 6, assert_raises(RejectedError) { value(call) }.code
  end

  def test_interrupting_a_release_does_not_stop_it
    ticket = hold
    call = start { ticket.release }
    peer, request = @script.next
    call.raise(CancelledError)
    assert_raises(CancelledError) { value(call) }
    peer.reply("R", request.request_id)
    assert_equal true, ticket.release
  end

  def test_what_the_garbage_collector_finds_is_released
    # Deep in another thread, so that no register or stack slot still refers to the ticket.
    Thread.new { Array.new(50) { |level| level.zero? ? hold && nil : level } }.join
    deadline = Worker.now + Server::PATIENCE
    until IO.select(@script.peers.map(&:socket), nil, nil, 0.01)
      GC.start
      flunk "the ticket was not released" if Worker.now > deadline
    end
    assert_equal 41, @script.answer("R").token
  end

  def test_reconnects
    3.times do
      @script.peers.shift.socket.close
      @script.accept
    end
    ticket = hold
    call = start { ticket.release }
    @script.answer("R")
    assert value(call)
  end

  def test_close_ends_acquires_and_lets_releases_finish
    ticket = hold
    other = hold(42)
    pending = acquire
    @script.next
    releasing = start { ticket.release }
    peer, request = @script.next
    closing = start { @broker.close }
    assert_raises(IndeterminateError) { value(pending) }
    [acquire, start { other.release }].each { |call| assert_raises(ClosedError) { value(call) } }
    peer.reply("R", request.request_id)
    value(closing)
    assert_equal true, value(releasing)
    assert(@script.peers.all?(&:closed?))
    # Calls after the thread has ended.
    @broker.close
    assert_raises(ClosedError) { @broker.acquire("k", wait: 5, lease: 30) }
    assert_raises(ClosedError) { @broker.ready(1) }
  end

  def test_many_threads
    servers = @script.peers.map do |peer|
      start do
        loop do
          request = peer.next
          peer.reply(request.op, request.request_id, 1)
        end
      rescue IOError, SystemCallError
        nil
      end
    end
    callers = Array.new(16) do |number|
      start { 20.times.count { @broker.acquire("k#{number}", wait: 5, lease: 30, &:token) == 1 } }
    end
    assert_equal [20] * 16, (callers.map { |caller| value(caller) })
    @broker.close
    servers.each { |server| value(server) }
  end

  def test_open_with_a_block_closes
    script = Script.new
    opened = nil
    seen = Ticketing.open(script.address) do |broker|
      opened = broker
      script.accept
      broker.ready(Server::PATIENCE)
      :seen
    end
    assert_equal :seen, seen
    assert_raises(ClosedError) { opened.ready(1) }
  ensure
    script.close
  end

  def test_nobody_waits_for_ever_when_the_thread_dies
    pending = acquire
    @script.next
    worker = @broker.instance_variable_get(:@worker)
    worker.instance_variable_get(:@thread).report_on_exception = false
    worker.post { raise "a mistake in the library" }
    assert_raises(IndeterminateError) { value(pending) }
    assert_raises(ClosedError) { @broker.acquire("k", wait: 5, lease: 30) }
    assert_raises(RuntimeError) { @broker.close }
    @broker = Broker.new(@script.address, timing: Script::QUICK) # For teardown.
  end

  def test_not_connected
    script = Script.new
    script.close
    Ticketing.open(script.address, timing: Script::QUICK) do |broker|
      error = assert_raises(NotConnectedError) { broker.ready(0.05) }
      assert_match(/refused/, error.message)
    end
  end

  def test_a_name_that_does_not_resolve
    Ticketing.open("no-such-host.invalid:1", token: "0123456789abcdef", timing: Script::QUICK) do |broker|
      assert_raises(NotConnectedError) { broker.ready(0.05) }
    end
    Thread.pass while Thread.list.size > @threads + 1 # The resolver's, which nothing can interrupt.
  end

  def test_a_secret_is_not_shown
    broker = Broker.new(@script.address, token: "0123456789abcdef", timing: Script::QUICK)
    refute_match(/0123456789abcdef/, broker.inspect)
    refute_match(/0123456789abcdef/,
                 broker.instance_variable_get(:@worker).instance_variable_get(:@engine).inspect)
  ensure
    broker.close
  end
end
