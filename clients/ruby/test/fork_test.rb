# frozen_string_literal: true

require "English"
require "rbconfig"
require "scripted"

# A fork of a broker's process: nothing may hang in it, nor reach the parent's sockets.
class ForkTest < Minitest::Test
  # A process of its own, so that the child ends with everything that Ruby does at the end.
  PROGRAM = <<~RUBY
    require "ticketing"

    broker = Ticketing.open(ARGV[0])
    ticket = broker.acquire("k", wait: 5, lease: 30)
    child = fork do
      calls = [
        -> { broker.acquire("k", wait: 5, lease: 1) },
        -> { broker.acquire_set(["k"], wait: 5, lease: 1) },
        -> { broker.ready(5) },
        -> { ticket.release },
        -> { ticket.abandon }
      ]
      calls.each_with_index do |call, index|
        call.call
        abort "call \#{index}: no ClosedError"
      rescue Ticketing::ClosedError => e
        abort "call \#{index}: \#{e.message}" unless e.message.include?("make a broker in the child")
      end
      broker.close
    end
    Process.wait(child)
    abort "the child: \#{$?}" unless $?.success?
    abort "not released" unless ticket.release
    broker.close
  RUBY
  LIBRARY = File.expand_path("../lib", __dir__)

  def test_a_child_leaves_the_parents_broker_alone
    skip "this platform has no fork" unless Process.respond_to?(:fork)
    script = Script.new
    command = [RbConfig.ruby, "-w", "-I", LIBRARY, "-e", PROGRAM, script.address]
    program = IO.popen([*command, { err: %i[child out] }])
    2.times { script.accept }
    assert_equal "k", script.answer("A", 41).keys.first
    assert_equal "R", script.answer("R").op
    said = Timeout.timeout(Server::PATIENCE) { program.read }
    program.close
    assert_equal ["", 0], [said, $CHILD_STATUS.exitstatus]
    assert(script.peers.all?(&:closed?))
  ensure
    Process.kill(:KILL, program.pid) if program && !program.closed?
    script&.close
  end
end
