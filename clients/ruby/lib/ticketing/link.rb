# frozen_string_literal: true

module Ticketing
  # The place of one connection: connects, serves, and reconnects until the broker closes. No I/O.
  #
  # The worker names the connection it speaks of by the epoch at its :connect action; what it says
  # of an earlier one is ignored.
  # @api private
  class Link
    attr_reader :address, :epoch, :slot, :phase
    # The Session of the current connection, if there is one.
    attr_reader :session
    attr_accessor :timer

    # slot is nil in single mode.
    def initialize(engine, address, slot, identity)
      @engine = engine
      @address = address
      @slot = slot
      @identity = identity
      @epoch = 0
      @phase = :idle # :connecting, :handshake, :usable, :backoff
      @timer = nil
      @backoff = engine.timing.backoff_min
      @queue = []
      @batch = [] # Of the last output: requests and the offsets of their frames.
      @batch_size = 0
      @session = nil
      @handshake_output = ""
      @opened_at = @heard_at = 0.0
    end

    def inspect
      "#<#{self.class} #{address.to_a} #{phase}>"
    end

    def usable?
      @phase == :usable
    end

    # Begins a connection.
    def connect(now)
      @phase = :connecting
      @epoch += 1
      @engine.actions << [:connect, self]
      @engine.timers.set(self, now + @engine.timing.connect)
    end

    # TCP is connected; TLS and the challenge-response follow.
    def connected(epoch, now)
      return unless epoch == @epoch && @phase == :connecting

      @phase = :handshake
      @session = Session.new(@identity, @engine.settings.token, @engine.settings.voters)
      @engine.timers.set(self, now + @engine.timing.handshake)
    end

    # Takes bytes from the server.
    def received(epoch, data, now)
      session = @session
      return if epoch != @epoch || session.nil?

      @heard_at = now
      if @phase == :handshake
        return unless shake_hands(session, data, now)

        data = "".b
      end
      session.receive(data) { |request, reply| take(request, reply, now) }
    rescue Wire::ProtocolError, Wire::TokenRefusedError => e
      @engine.refused = true if e.is_a?(Wire::TokenRefusedError)
      fail_with(e.message, now) if session.equal?(@session)
    end

    # The connection failed or ended. Of the last output, the socket did not take that many bytes at
    # the end: the requests that begin there are provably unsent.
    def lost(epoch, reason, now, untaken = 0)
      return if epoch != @epoch || @phase == :idle || @phase == :backoff

      taken = @batch_size - untaken
      @batch.each { |request, offset| request.unsend if offset >= taken }
      ended(reason, now)
    end

    # Acts on the end of back-off or on a connection that takes too long.
    def expired(now)
      case @phase
      when :backoff then connect(now)
      when :connecting then fail_with("connecting takes too long", now)
      else fail_with("the handshake takes too long", now)
      end
    end

    # Queues a request.
    def submit(request)
      @queue << request
      @engine.writable[self] = true
    end

    # Closes a connection on which nothing came since then: it is dead.
    def close_if_silent(since, now)
      fail_with("the server is silent", now) if usable? && @heard_at < since
    end

    # Ends for good.
    def shut(now)
      fail_with("the broker closed", now) if %i[connecting handshake usable].include?(@phase)
      @phase = :idle
      @engine.timers.cancel(self)
    end

    # The next bytes for that connection; the requests in them are sent from here on.
    def output(epoch, now)
      session = @session
      return "" if epoch != @epoch || session.nil?
      return take_handshake_output unless @handshake_output.empty?

      batch = take_batch(session, now)
      if session.outstanding > Limits::OUTSTANDING_MAX
        fail_with("the server leaves too many requests unanswered", now)
      end
      batch
    end

    private

    def take_batch(session, now)
      batch = "".b
      @batch.clear
      while batch.bytesize < Limits::BATCH_SIZE_BYTES_MAX && (request = @queue.shift)
        frame = request.send_on(session, now) if request.state == :queued
        next unless frame

        @batch << [request, batch.bytesize]
        batch << frame
      end
      @batch_size = batch.bytesize
      batch
    end

    def take(request, reply, now)
      if reply.op == Wire::LEADER || reply.op == Wire::MOVED
        @engine.leader = reply.value
      elsif Replies.not_serving?(reply)
        @engine.forget_leader(self)
      end
      request&.answered(reply, now)
    end

    def take_handshake_output
      proof = @handshake_output
      @handshake_output = ""
      proof
    end

    # Whether the handshake is over.
    def shake_hands(session, data, now)
      proof = session.handshake(data)
      unless proof.empty?
        @handshake_output = proof
        @engine.writable[self] = true
      end
      return false unless session.accepted?

      @phase = :usable
      @opened_at = now
      @engine.timers.cancel(self)
      @engine.link_usable(now)
      true
    end

    # Ends the connection from this side.
    def fail_with(reason, now)
      @engine.actions << [:disconnect, self]
      ended(reason, now)
    end

    def ended(reason, now)
      timing = @engine.timing
      @backoff = timing.backoff_min if usable? && now - @opened_at >= timing.session_long
      @phase = :backoff
      session = @session
      @session = nil
      @handshake_output = ""
      @batch.clear
      @batch_size = 0
      @engine.timers.set(self, now + @backoff)
      @backoff = [@backoff * 2, timing.backoff_max].min
      @engine.link_ended(self, reason)
      requests = (session ? session.abandon : []) + @queue
      @queue = []
      requests.each { |request| request.lost(now) unless request.state == :done }
    end
  end
end
