# frozen_string_literal: true

module Ticketing
  # Everything of a broker between calls and bytes, without I/O and without a clock.
  #
  # A worker feeds it with calls, bytes, losses and the time, and carries out what it asks for:
  # actions, output of writable links, and to be called again at the next deadline. It belongs to one
  # thread.
  # @api private
  class Engine
    attr_reader :settings, :timing, :timers, :links
    # [:connect or :disconnect, link], in order: the worker empties the list.
    attr_reader :actions
    # Links that have output, as keys: the worker empties it.
    attr_reader :writable
    # Calls that wait for a usable link, as keys in order.
    attr_reader :waiting
    # Acquires between call and answer, tombstones included.
    attr_accessor :pending_count
    # Whether the last handshake that got a verdict was refused.
    attr_writer :refused

    # The deadline of closing.
    class Drain
      attr_accessor :timer

      def initialize(engine)
        @engine = engine
        @timer = nil
      end

      def expired(now)
        @engine.terminate(now)
      end
    end

    def initialize(settings, timing)
      @settings = settings
      @timing = timing
      @timers = Timers.new
      @actions = []
      @writable = {}.compare_by_identity
      @waiting = {}.compare_by_identity
      @acquires = {}.compare_by_identity
      @releases = {}.compare_by_identity
      @pending_count = 0
      @refused = @closing = @closed = false
      @leader = nil
      @last_failure = "no answer yet; check the address, and that both sides use TLS or neither"
      @next = 0
      @drain = Drain.new(self)
      @links = make_links
    end

    # Everything refers to the engine, and through it to the token: nothing of it is shown.
    def inspect
      "#<#{self.class} #{settings.inspect}>"
    end

    # Whether every call and link has ended.
    def closed?
      @closed
    end

    # Begins to connect.
    def start(now)
      @links.each { |link| link.connect(now) }
    end

    # Begins an acquire; it ends at once if there is no room for it.
    def acquire(call, now)
      return call.refuse(ClosedError.new("the broker is closed")) if @closing
      if @pending_count >= @settings.pending_limit
        return call.refuse(ClientCapacityError.new("#{@pending_count} acquires are pending"))
      end

      @pending_count += 1
      @acquires[call] = true
      call.begin(self, now)
    end

    # Begins a release; it ends at once if there is no room for it.
    def release(call, now)
      return call.refuse(ClosedError.new("the broker is closed")) if @closing

      begin_release(call, now)
    end

    # Begins to wait for a usable link.
    def ready(call, now)
      return call.refuse(ClosedError.new("the broker is closed")) if @closing

      call.begin(self, now)
    end

    # Refuses new calls, ends acquires, and lets releases finish for a while.
    def close(now)
      return if @closing

      @closing = true
      @acquires.keys.map { |call| call.close(now) } # A copy: each removes itself.
      @waiting.keys.grep(ReadyCall).each { |call| call.close(now) }
      if @releases.empty?
        terminate(now)
      else
        @timers.set(@drain, now + @timing.close_drain)
      end
    end

    # Ends everything.
    def terminate(now)
      @closed = true # First: ending the last release comes back here.
      @timers.cancel(@drain)
      @releases.keys.map { |call| call.close(now) }
      @links.each { |link| link.shut(now) }
    end

    # The known leader's link if usable, otherwise usable ones in turn; one whose session is not to
    # be avoided is preferred. nil if no link is usable.
    def choose(avoid)
      leader = @leader && @links[@leader]
      fallback = leader if leader&.usable?
      return fallback if fallback && !avoid.include?(fallback.session)

      @next = (@next + 1) % @links.size
      @links.size.times do |step|
        link = @links[(@next + step) % @links.size]
        next unless link.usable?
        return link unless avoid.include?(link.session)

        fallback ||= link
      end
      fallback
    end

    def any_usable?
      @links.any?(&:usable?)
    end

    # The error of a call that found no usable link.
    def unreachable
      return UnauthorizedError.new if @refused

      NotConnectedError.new("no server is reachable: #{@last_failure}")
    end

    # Remembers the leader's slot, or that none is known.
    def leader=(slot)
      @leader = slot == Wire::NO_SLOT ? nil : slot
    end

    # Lets the calls that wait for a link go on.
    def link_usable(now)
      @refused = false
      waiting = @waiting
      @waiting = {}.compare_by_identity
      waiting.each_key { |call| call.dispatch(now) }
    end

    # Takes note of a lost connection or a failed attempt.
    def link_ended(link, reason)
      @last_failure = "#{link.address.host} port #{link.address.port}: #{reason}"
      forget_leader(link)
    end

    # Forgets the leader if it is this link's node.
    def forget_leader(link)
      @leader = nil if link.slot && link.slot == @leader
    end

    # Releases a grant that no caller wants. When the release queue is full or the broker has
    # closed, the lease ends the grant.
    def release_unwanted(keys, token, now)
      return if @closing && @releases.empty?

      begin_release(ReleaseCall.new(keys, token), now)
    end

    # Forgets an acquire that has its outcome.
    def finish_acquire(call)
      @pending_count -= 1
      @acquires.delete(call)
      finish_ready(call)
    end

    # Forgets a release that has its outcome.
    def finish_release(call, now)
      @releases.delete(call)
      finish_ready(call)
      terminate(now) if @closing && !@closed && @releases.empty?
    end

    # Forgets a waiter that has its outcome.
    def finish_ready(call)
      @waiting.delete(call)
      @timers.cancel(call)
    end

    private

    def make_links
      fingerprint = @settings.domain.fingerprint
      if fingerprint
        return @settings.addresses.each_with_index.map do |address, slot|
          Link.new(self, address, slot, Wire::Identity.member(fingerprint, slot))
        end
      end

      Array.new(Limits::CONNECTIONS_SINGLE) do
        Link.new(self, @settings.addresses.first, nil, Wire::Identity.single)
      end
    end

    def begin_release(call, now)
      if @releases.size >= @settings.release_queue_limit
        return call.refuse(ClientCapacityError.new("#{@releases.size} releases are in progress"))
      end

      @releases[call] = true
      call.begin(self, now)
    end
  end
end
