# frozen_string_literal: true

module Ticketing
  # Every bound of the client, with its unit.
  # @api private
  module Limits
    # Protocol, "Request frames".
    KEY_SIZE_BYTES_MIN = 1
    KEY_SIZE_BYTES_MAX = 128
    SET_KEY_COUNT_MAX = 16
    WAIT_SECONDS_MAX = 255
    LEASE_SECONDS_MIN = 1
    LEASE_SECONDS_MAX = 250
    TOKEN_SIZE_BYTES_MIN = 16
    TOKEN_SIZE_BYTES_MAX = 4096
    FINGERPRINT_SIZE_BYTES = 32

    PENDING_LIMIT_DEFAULT = 1024
    RELEASE_QUEUE_LIMIT_DEFAULT = 1024
    # The highest either limit may be set to.
    CALL_LIMIT_MAX = 16_384

    # Unanswered requests of one session: every acquire a broker may have, and as many attempts of
    # releases. A server that leaves more unanswered has stopped serving.
    OUTSTANDING_MAX = 2 * CALL_LIMIT_MAX

    # Connections to a single address, so that one broken socket does not interrupt service.
    CONNECTIONS_SINGLE = 2

    # What one write hands to the socket, and so what a broken connection makes indeterminate at once.
    BATCH_SIZE_BYTES_MAX = 64 << 10
    READ_SIZE_BYTES = 32 << 10
  end

  # Every duration of the client in seconds, so that tests can use others.
  # @api private
  Timing = Struct.new(
    :connect, # TCP.
    :handshake, # TLS and challenge-response together.
    :backoff_min, # First pause before reconnecting; doubles.
    :backoff_max,
    :session_long, # A session that lasted this long starts back-off again.
    :immediate_find, # How long an acquire with wait 0 may look for a server.
    :answer_grace, # Beyond the wait sent, until a sent acquire is indeterminate.
    :release_window, # From the release call.
    :release_attempt, # Without an answer, until a release is sent again.
    :retry_min, # Pause between attempts of one call; doubles.
    :retry_max,
    :close_drain, # How long closing lets releases finish.
    keyword_init: true
  )

  # @api private
  TIMING = Timing.new(
    connect: 5.0, handshake: 10.0, backoff_min: 0.1, backoff_max: 3.2, session_long: 1.0,
    immediate_find: 5.0, answer_grace: 5.0, release_window: 5.0, release_attempt: 2.0,
    retry_min: 0.01, retry_max: 0.1, close_drain: 5.0
  ).freeze
end
