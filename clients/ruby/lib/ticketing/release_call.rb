# frozen_string_literal: true

module Ticketing
  # One logical release: attempts until a definite answer or the end of its window. No I/O.
  # @api private
  class ReleaseCall
    attr_accessor :timer
    # true: released. false: the token holds nothing any more. Or an Error.
    attr_reader :outcome

    # The block is called once, when the outcome is there.
    def initialize(keys, token, &on_done)
      @keys = keys
      @token = token
      @on_done = on_done
      @outcome = nil
      @timer = nil
      @request = nil
      @silent = [] # Sessions of attempts without an answer in time.
    end

    # Starts. The outcome may be there at once.
    def begin(engine, now)
      @engine = engine
      @deadline = now + engine.timing.release_window
      @pause = Pause.new(engine.timing)
      dispatch(now)
    end

    # Ends it before it began.
    def refuse(error)
      @outcome = error
      @on_done&.call
    end

    # Sends it, not on a silent connection if there is another, or waits for a usable one.
    def dispatch(now)
      link = @engine.choose(@silent)
      if link
        @request = Request.new(self, link)
        link.submit(@request)
        @engine.timers.set(self, [now + @engine.timing.release_attempt, @deadline].min)
      else
        @engine.waiting[self] = true
        @engine.timers.set(self, @deadline)
      end
    end

    # Encodes the request.
    def frame(request, session, _now)
      session.release(request, @token, @keys)
    end

    # Takes a definite answer to any attempt, even a late one; otherwise sends it again.
    def answered(request, reply, now)
      return unless @outcome.nil?

      case reply.op
      when Wire::RELEASE, Wire::RELEASE_SET then finish(true, now)
      when Wire::NOT_HELD then finish(false, now)
      else
        if reply.op == Wire::REFUSED && !Replies.not_taken?(reply)
          finish(RejectedError.new(reply.value), now)
        else
          again(request, now)
        end
      end
    end

    # Sends it again: the exact token can release only this grant.
    def lost(request, _sent, now)
      again(request, now) if @outcome.nil?
    end

    # Acts on the end of a pause, of an attempt, or of the window.
    def expired(now)
      note_silence
      if now >= @deadline
        finish(ReleaseUnconfirmedError.new("no definite answer within the release window"), now)
      else
        dispatch(now)
      end
    end

    # Gives up because the broker closes.
    def close(now)
      finish(ReleaseUnconfirmedError.new("the broker closed before the answer"), now)
    end

    private

    # The attempt, if there is one, has no answer in time; the next is sent in its place.
    def note_silence
      return unless @request

      @silent << @request.link.session
      @request.withdraw if @request.state == :queued
      @request = nil
    end

    def again(request, now)
      return unless request.equal?(@request)

      @request = nil
      @engine.timers.set(self, [now + @pause.next, @deadline].min)
    end

    def finish(outcome, now)
      @outcome = outcome
      # First the caller: the end of the last release may end the broker.
      @on_done&.call
      @engine.finish_release(self, now)
    end
  end
end
