# frozen_string_literal: true

module Ticketing
  # Base of every error of this library. Each subclass says what is known about the lock.
  class Error < StandardError; end

  # An argument breaks a rule. Nothing was sent.
  class InvalidInputError < Error; end

  # This broker has as many calls in progress as it may. Nothing was sent.
  class ClientCapacityError < Error; end

  # The call was given up. Not held; whatever the server may have granted is being released.
  # Raise it in a thread that is blocked in acquire (Thread#raise) to cancel the call.
  class CancelledError < Error; end

  # The broker is closed, or belongs to the process that this one was forked from. Nothing was sent.
  class ClosedError < Error; end

  # The turn did not come within the wait. Not held, and this request can never be granted.
  class TimeoutError < Error
    def initialize(message = "the turn did not come within the wait; wait longer or try again") = super
  end

  # Not held: the server is at capacity.
  class BusyError < Error
    def initialize(message = "the server is at capacity; try again later or raise its limits") = super
  end

  # Not held: no server was reachable.
  class NotConnectedError < Error; end

  # Not held: the server refused the token.
  class UnauthorizedError < Error
    MESSAGE = "the server refused the token, or its cluster has another fingerprint; " \
              "give the client those that the server accepts"
    private_constant :MESSAGE

    def initialize(message = MESSAGE)
      super
    end
  end

  # Not held: the cluster has no leader, or a restarted single server still waits for the leases of
  # its predecessor to end.
  class NoLeaderError < Error
    # What is true, and what helps.
    MESSAGE = "no server grants now: a restarted single server waits until its predecessor's leases are " \
              "over, a cluster needs a majority of its nodes; wait longer or try again"
    private_constant :MESSAGE

    def initialize(message = MESSAGE) = super
  end

  # The server refused the request's values. Not held (acquire) or not released (release).
  class RejectedError < Error
    # Names of the protocol's codes. NotActive (3) and NoLeader (4) are retried and reach no caller.
    CODES = { 1 => :bad_key, 2 => :bad_lease, 5 => :bad_key_set, 6 => :group_mismatch,
              7 => :bad_token }.freeze

    # @return [Integer] the protocol's code
    attr_reader :code

    # @param code [Integer]
    def initialize(code)
      @code = code
      super("the server rejected the request: #{CODES.fetch(code)} (code #{code})")
    end
  end

  # Granted, but too late to be useful; it is being released.
  class InsufficientLeaseError < Error; end

  # Unknown whether the lock is held: do not enter the critical section. At worst the lease ends it.
  class IndeterminateError < Error; end

  # Release only: unknown whether the lock was released; the lease ends it.
  class ReleaseUnconfirmedError < Error; end
end
