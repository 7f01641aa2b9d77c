# frozen_string_literal: true

module Ticketing
  # One logical acquire: attempts until a definite outcome. No I/O.
  # @api private
  class AcquireCall
    # No session is avoided.
    NONE = [].freeze

    attr_accessor :timer
    # A Grant or an Error, once it is there.
    attr_reader :outcome, :keys

    # The block is called once, when the outcome is there.
    def initialize(keys, terms, &on_done)
      @keys = keys
      @terms = terms
      @on_done = on_done
      @outcome = nil
      @timer = nil
      @engine = nil
      @request = nil
      @ever_usable = false
      @leaderless = false # The last answer was MOVED, NoLeader or NotActive.
    end

    # Starts. The outcome may be there at once.
    def begin(engine, now)
      @engine = engine
      @deadline = now + (@terms.wait.zero? ? engine.timing.immediate_find : @terms.wait)
      @pause = Pause.new(engine.timing)
      engine.timers.set(self, @deadline)
      dispatch(now)
    end

    # Ends it before it began.
    def refuse(error)
      @outcome = error
      @on_done.call
    end

    # Sends the request, or waits for a usable link.
    def dispatch(_now)
      link = @engine.choose(NONE)
      return @engine.waiting[self] = true unless link

      @ever_usable = true
      @request = Request.new(self, link)
      link.submit(@request)
    end

    # Encodes the request, unless nothing is left of the wait.
    def frame(request, session, now)
      unless @terms.wait.zero?
        left = @deadline - now
        return if left <= 0

        # The sum of two floats may exceed the whole wait by a rounding error.
        request.wait = [left.ceil, @terms.wait].min
      end
      session.acquire(request, request.wait, @terms.lease, @keys)
    end

    # Turns the reply into the outcome, or tries again.
    def answered(request, reply, now)
      @request = nil
      @leaderless = Replies.not_taken?(reply)
      if @leaderless
        try_again(now)
      elsif Replies.grant?(reply)
        granted(Grant.new(reply.value, request.sent_at + @terms.lease), now)
      else
        finish(refusal(reply))
      end
    end

    # Tries again at once if no byte was sent.
    def lost(_request, sent, now)
      @request = nil
      if sent
        finish(IndeterminateError.new("the connection broke before the answer"))
      elsif now >= @deadline
        finish(exhausted)
      else
        dispatch(now)
      end
    end

    # Releases a grant that came after the caller had gone.
    def abandoned_answer(reply, now)
      @engine.pending_count -= 1
      @engine.release_unwanted(@keys, reply.value, now) if reply && Replies.grant?(reply)
    end

    # Acts on the end of a pause, of the wait, or of the answer grace.
    def expired(now)
      if @request&.state == :sent
        answer_due(now)
      elsif @request.nil? && now < @deadline
        @engine.timers.set(self, @deadline)
        dispatch(now)
      else
        give_up(exhausted)
      end
    end

    # Gives up for a caller who can take no outcome, not even one that is there.
    def disown(now)
      return unless @engine # It never began.

      give_up(CancelledError.new("the call was cancelled")) unless @outcome
      @engine.release_unwanted(@keys, @outcome.token, now) if @outcome.is_a?(Grant)
    end

    # Gives up because the broker closes.
    def close(_now)
      if @request&.state == :sent
        give_up(IndeterminateError.new("the broker closed before the answer"))
      else
        give_up(ClosedError.new("the broker is closed"))
      end
    end

    private

    def refusal(reply)
      case reply.op
      when Wire::TIMED_OUT then TimeoutError.new
      when Wire::BUSY then BusyError.new
      when Wire::REFUSED then RejectedError.new(reply.value)
      else IndeterminateError.new("the server lost its leadership meanwhile")
      end
    end

    def answer_due(now)
      request = @request
      due = request.sent_at + request.wait + @engine.timing.answer_grace
      return @engine.timers.set(self, due) if now < due

      give_up(IndeterminateError.new("no answer came in time"))
      request.link.close_if_silent(request.sent_at, now)
    end

    # Ends without waiting for an answer. A sent request leaves a tombstone, which counts towards
    # the pending limit until it is answered.
    def give_up(error)
      if @request&.state == :sent
        @request.abandon
        @engine.pending_count += 1
      else
        @request&.withdraw
      end
      finish(error)
    end

    def try_again(now)
      return finish(exhausted) if now >= @deadline

      @engine.timers.set(self, [now + @pause.next, @deadline].min)
    end

    def granted(grant, now)
      left = grant.valid_before - now
      return finish(grant) if left.positive? && left >= @terms.budget

      @engine.release_unwanted(@keys, grant.token, now)
      finish(InsufficientLeaseError.new("#{left.round(3)} s of at least #{@terms.budget} s are left"))
    end

    # The outcome when the wait is over while nothing is outstanding.
    def exhausted
      return @engine.unreachable unless @ever_usable
      return NoLeaderError.new if @leaderless

      TimeoutError.new
    end

    def finish(outcome)
      @outcome = outcome
      @engine.finish_acquire(self)
      @on_done.call
    end
  end
end
