# frozen_string_literal: true

module Ticketing
  # One attempt of a call, on one link. Its life: queued -> sent (a byte may have left) -> done.
  # Whether a lost acquire is retried or indeterminate hangs on it.
  # @api private
  class Request
    attr_reader :call, :link, :state, :sent_at
    # Of an acquire: the wait sent, in seconds.
    attr_accessor :wait

    def initialize(call, link)
      @call = call
      @link = link
      @state = :queued
      @sent_at = 0.0 # Just before it was handed to the socket.
      @wait = 0
      @abandoned = false
    end

    # Returns the frame and is sent, or returns nil if the call has no time left.
    def send_on(session, now)
      frame = @call.frame(self, session, now)
      if frame
        @state = :sent
        @sent_at = now
      else
        lost(now)
      end
      frame
    end

    # Takes the reply.
    def answered(reply, now)
      @state = :done
      if @abandoned
        @call.abandoned_answer(reply, now)
      else
        @call.answered(self, reply, now)
      end
    end

    # Takes the loss of the connection, before or after it was sent.
    def lost(now)
      sent = @state == :sent
      @state = :done
      if @abandoned
        @call.abandoned_answer(nil, now)
      else
        @call.lost(self, sent, now)
      end
    end

    # The socket provably took no byte of it.
    def unsend
      @state = :queued if @state == :sent
    end

    # Gives a queued request up: it is never sent.
    def withdraw
      @state = :done
    end

    # Nobody waits for the answer any more; a grant in it is released.
    def abandon
      @abandoned = true
    end
  end

  # A lock on the server; valid_before is on the monotonic clock.
  # @api private
  Grant = Struct.new(:token, :valid_before)

  # The growing pause between attempts of one call.
  # @api private
  class Pause
    def initialize(timing)
      @length = timing.retry_min
      @max = timing.retry_max
    end

    # The next pause, in seconds.
    def next
      length = @length
      @length = [length * 2, @max].min
      length
    end
  end

  # What replies mean to calls.
  # @api private
  module Replies
    module_function

    def grant?(reply)
      reply.op == Wire::ACQUIRE || reply.op == Wire::ACQUIRE_SET
    end

    # Whether the node says that it does not lead.
    def not_serving?(reply)
      reply.op == Wire::REFUSED && (reply.value == Wire::NO_LEADER || reply.value == Wire::NOT_ACTIVE)
    end

    # Whether the server provably did nothing and another may serve.
    def not_taken?(reply)
      reply.op == Wire::MOVED || not_serving?(reply)
    end
  end
end
