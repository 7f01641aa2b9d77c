# frozen_string_literal: true

module Ticketing
  # A held lock. Safe for concurrent use. A ticket that the garbage collector finds unreleased is
  # released in the background.
  class Ticket
    # The fencing token, larger than every token granted before it in the same domain. Have the
    # protected resource refuse any write with a token below the highest it has seen, in the same
    # transaction as the write.
    # @return [Integer] 1 to 2**64 - 1
    attr_reader :token

    # @return [Domain] the fencing domain of the token
    attr_reader :domain

    # The time on the clock of Process::CLOCK_MONOTONIC, in seconds, after which the holder must not
    # act on the lock: when the request was sent, plus the lease.
    # @return [Float]
    attr_reader :valid_before

    # @api private
    def initialize(worker, domain, keys, grant)
      @worker = worker
      @domain = domain
      @keys = keys
      @token = grant.token
      @valid_before = grant.valid_before
      @lock = Mutex.new
      @release = nil
      ObjectSpace.define_finalizer(self, Ticket.forgotten(worker, keys, @token))
    end

    # Made where the ticket is not in reach: a finalizer that refers to it would keep it for ever.
    # @api private
    def self.forgotten(worker, keys, token)
      proc { worker.drop(keys, token) }
    end

    # @return [String] the key, or the first of a set
    def key
      keys.first
    end

    # @return [Array<String>] all keys, ascending bytewise
    def keys
      @keys.map { |key| key.dup.force_encoding(Encoding::UTF_8) }
    end

    # @return [Float] seconds until valid_before; negative after it
    def remaining
      valid_before - Worker.now
    end

    # Gives the lock back; retried for at most 5 s. A second call returns the first one's result.
    # When the calling thread is interrupted, the release goes on in the background.
    #
    # @return [Boolean] true: the server confirmed it; false: the lock is not held any more
    # @raise [ReleaseUnconfirmedError] unknown; the lease ends the lock
    # @raise [RejectedError] the server refused; the lease ends the lock
    # @raise [ClientCapacityError] too many releases in progress; may be called again
    # @raise [ClosedError] the broker is closed, or the parent's in a forked process; the lease ends
    #   the lock
    def release
      release = begin_release
      outcome = release.wait
      if outcome.is_a?(ClientCapacityError)
        @lock.synchronize { @release = nil if @release.equal?(release) }
      end
      raise outcome if outcome.is_a?(Error)

      outcome
    end

    # Begins to release in the background, without waiting for the result.
    # @return [void]
    def abandon
      begin_release
      nil
    end

    # @api private
    def inspect
      "#<#{self.class} #{keys} token=#{token} domain=#{domain}>"
    end

    private

    def begin_release
      @worker.check_process
      @lock.synchronize do
        next @release if @release

        ObjectSpace.undefine_finalizer(self)
        @release = Waiting.new { |done| ReleaseCall.new(@keys, @token, &done) }
        @worker.release(@release.call)
        @release
      end
    end
  end

  # A call and the threads that wait for its outcome.
  # @api private
  class Waiting
    attr_reader :call

    # The block gets what the call must call when it is done, and returns the call.
    def initialize
      @done = Thread::Queue.new
      @call = yield(proc { @done.close })
    end

    # Blocks until the outcome is there. The thread may be interrupted.
    def wait
      @done.pop
      @call.outcome
    end
  end
end
