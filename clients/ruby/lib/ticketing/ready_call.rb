# frozen_string_literal: true

module Ticketing
  # Waits until a link is usable. No I/O.
  # @api private
  class ReadyCall
    attr_accessor :timer
    # true or an Error.
    attr_reader :outcome

    # Waits at most that long, in seconds. The block is called once, when the outcome is there.
    def initialize(timeout, &on_done)
      @timeout = timeout
      @on_done = on_done
      @outcome = nil
      @timer = nil
      @engine = nil
    end

    # Starts. The outcome may be there at once.
    def begin(engine, now)
      @engine = engine
      engine.timers.set(self, now + @timeout)
      dispatch(now)
    end

    # Ends it before it began.
    def refuse(error)
      @outcome = error
      @on_done.call
    end

    # Ends if a link is usable, else waits on.
    def dispatch(_now)
      if @engine.any_usable?
        finish(true)
      else
        @engine.waiting[self] = true
      end
    end

    # Acts on the end of the time.
    def expired(_now)
      finish(@engine.unreachable)
    end

    # Gives up for a caller who is gone.
    def disown(_now)
      finish(CancelledError.new("the call was cancelled")) if @engine && !@outcome
    end

    # Gives up because the broker closes.
    def close(_now)
      finish(ClosedError.new("the broker is closed"))
    end

    private

    def finish(outcome)
      @outcome = outcome
      @engine.finish_ready(self)
      @on_done.call
    end
  end
end
