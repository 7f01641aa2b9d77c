# frozen_string_literal: true

module Ticketing
  # A client of one lock server or cluster. It keeps connections open in a thread of its own and
  # reconnects for ever. Safe for concurrent use: share one in the whole process, and close it at
  # the end. After fork it stays with the parent: in the child every call raises ClosedError at once,
  # and #close does nothing.
  #
  # @example
  #   Ticketing.open("127.0.0.1:5225") do |broker|
  #     broker.acquire("order-1234", wait: 5, lease: 30) do |ticket|
  #       save(order, fence: ticket.token)
  #     end
  #   end
  class Broker
    # With a block, yields the broker, closes it at the end of the block, and returns the block's
    # value. Without one, returns the broker. Takes what {#initialize} takes.
    def self.open(addresses, **settings)
      broker = new(addresses, **settings)
      return broker unless block_given?

      begin
        yield broker
      ensure
        broker.close
      end
    end

    # Checks the settings and begins to connect in the background.
    #
    # @param addresses [String, Array<String>] "host:port" or "[ipv6]:port"; for a cluster 3 or 5 of
    #   them in slot order
    # @param fingerprint [String, nil] the cluster's identity, 64 hex digits or 32 bytes; selects
    #   cluster mode
    # @param token [String, nil] client token, 16-4096 bytes; needed for every address that is not
    #   loopback
    # @param tls [Boolean, String, Pathname, OpenSSL::SSL::SSLContext] true trusts the system's
    #   roots, a path the CAs in that PEM file. Certificate and host name are verified, unless the
    #   context's verify_mode is VERIFY_NONE
    # @param server_name [String, nil] name in the server's certificate; the address's host unless set.
    #   Without tls it is refused
    # @param pending_limit [Integer] most acquires between call and answer, 1-16,384
    # @param release_queue_limit [Integer] most releases in progress, 1-16,384
    # @raise [InvalidInputError] a setting breaks its rule
    def initialize(addresses, fingerprint: nil, token: nil, tls: false, server_name: nil,
                   pending_limit: Limits::PENDING_LIMIT_DEFAULT,
                   release_queue_limit: Limits::RELEASE_QUEUE_LIMIT_DEFAULT, timing: TIMING)
      @settings = Settings.new(
        addresses, fingerprint: fingerprint, token: token, tls: tls, server_name: server_name,
                   pending_limit: pending_limit, release_queue_limit: release_queue_limit
      )
      @worker = Worker.new(@settings, timing)
    end

    # @return [Domain] the fencing domain of this broker's tokens
    def domain
      @settings.domain
    end

    # Waits in the key's queue for the lock. With a block, yields the ticket, releases it at the end
    # of the block, and returns the block's value; what the release says is then not reported. Without
    # one, returns the ticket.
    #
    # Not re-entrant: the holder asking again queues like anyone else. When the calling thread is
    # interrupted (Timeout.timeout, Thread#raise), a grant that comes too late is released in the
    # background.
    #
    # @param key [String] 1-128 bytes of UTF-8 without space, LF or CR
    # @param wait [Numeric] longest time to queue, 0-255 s, rounded up to whole seconds; 0 is one
    #   immediate try
    # @param lease [Numeric] how long the lock lasts unless it is released: whole seconds, 1-250
    # @param budget [Numeric] seconds that the work needs at least: a grant with less left is
    #   released and reported as InsufficientLeaseError
    # @yieldparam ticket [Ticket]
    # @return [Ticket, Object]
    # @raise [Error] see its subclasses for what each says about the lock
    def acquire(key, wait:, lease:, budget: 0, &work)
      obtain([Settings.check_key(key)], Settings.check_terms(wait, lease, budget), &work)
    end

    # Acquires 1-16 keys, all or nothing, under one token. Order and duplicates do not matter, and
    # sets of several callers cannot deadlock. Otherwise it is like {#acquire}.
    #
    # @param keys [Enumerable<String>]
    # @return [Ticket, Object]
    def acquire_set(keys, wait:, lease:, budget: 0, &work)
      obtain(Settings.check_keys(keys), Settings.check_terms(wait, lease, budget), &work)
    end

    # Waits until a connection is usable, at most that many seconds.
    #
    # @return [void]
    # @raise [NotConnectedError] no server was reachable
    # @raise [UnauthorizedError] the server refused the token
    def ready(timeout)
      @worker.check_process
      waiting = Waiting.new { |done| ReadyCall.new(timeout, &done) }
      @worker.ready(waiting.call)
      outcome = waiting.wait
      raise outcome if outcome.is_a?(Error)
    ensure
      disown(waiting) if waiting
    end

    # Refuses new calls, lets releases finish for at most 5 s, and ends every connection. Acquires
    # in progress end with ClosedError, or with IndeterminateError if they may have been sent.
    # Idempotent.
    # @return [void]
    def close
      @worker.close
      nil
    end

    # @api private
    def inspect
      "#<#{self.class} #{@settings.inspect}>"
    end

    private

    # Everything that an interrupt could lose is in `waiting` before anything is sent.
    def obtain(keys, terms)
      @worker.check_process
      waiting = Waiting.new { |done| AcquireCall.new(keys, terms, &done) }
      ticket = nil
      begin
        @worker.acquire(waiting.call)
        outcome = waiting.wait
        raise outcome if outcome.is_a?(Error)

        ticket = Ticket.new(@worker, domain, keys, outcome)
      ensure
        disown(waiting) unless ticket || outcome.is_a?(Error)
      end
      return ticket unless block_given?

      begin
        yield ticket
      ensure
        release_quietly(ticket)
      end
    end

    def disown(waiting)
      @worker.post { |now| waiting.call.disown(now) }
    end

    # The work is done, whatever the release says.
    def release_quietly(ticket)
      ticket.release
    rescue Error
      nil
    end
  end
end
