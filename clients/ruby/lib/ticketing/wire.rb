# frozen_string_literal: true

require "digest"
require "openssl"

module Ticketing
  # Requests to bytes and bytes to replies. No I/O, no clock. Names in quotes are sections of the
  # protocol page.
  # @api private
  module Wire
    # Requests. A set is two or more keys under one token. The replies of the same letter say yes.
    ACQUIRE = "A".ord
    RELEASE = "R".ord
    ACQUIRE_SET = "S".ord
    RELEASE_SET = "G".ord

    NOT_HELD = "N".ord
    TIMED_OUT = "T".ord
    BUSY = "B".ord
    MOVED = "M".ord
    INDETERMINATE = "I".ord
    REFUSED = "E".ord
    LEADER = "L".ord

    # "No leader known" in replies, and single mode in a hello.
    NO_SLOT = 255
    NOT_ACTIVE = 3
    NO_LEADER = 4

    HELLO_SIZE_BYTES = 28
    ACCEPTED = 1
    TOKEN_REFUSED = 0

    HEAD_SIZE_BYTES = 3
    MAGIC = "TCKCLI3\0".b.freeze
    VERSION = 3
    PROOF_DOMAIN = "TCK/CLIENT/AUTH3".b.freeze

    # Body length by opcode. "Reply frames".
    REPLY_BODY_SIZES = {
      ACQUIRE => 16, ACQUIRE_SET => 16, RELEASE => 8, RELEASE_SET => 8, NOT_HELD => 8,
      TIMED_OUT => 8, BUSY => 8, MOVED => 9, INDETERMINATE => 8, REFUSED => 9, LEADER => 1
    }.freeze

    ACQUIRES = [ACQUIRE, ACQUIRE_SET].freeze
    RELEASES = [RELEASE, RELEASE_SET].freeze
    ALL = (ACQUIRES + RELEASES).freeze
    # Requests that a reply may answer, by its opcode.
    ANSWERS = {
      ACQUIRE => [ACQUIRE], ACQUIRE_SET => [ACQUIRE_SET], RELEASE => [RELEASE],
      RELEASE_SET => [RELEASE_SET], NOT_HELD => RELEASES, TIMED_OUT => ACQUIRES, BUSY => ACQUIRES,
      MOVED => ALL, INDETERMINATE => ALL, LEADER => []
    }.freeze
    # Requests that a code of REFUSED may answer.
    REFUSABLE = {
      1 => ALL, 2 => ACQUIRES, 3 => ALL, 4 => ALL, 5 => [ACQUIRE_SET, RELEASE_SET], 6 => RELEASES,
      7 => RELEASES
    }.freeze

    # The server broke the protocol: the session ends.
    class ProtocolError < StandardError; end

    # The server refused the client token.
    class TokenRefusedError < StandardError; end

    # One reply frame. The id is 0 for LEADER; the value is the token of a grant, the slot of MOVED
    # and LEADER, the code of REFUSED, else 0.
    Reply = Struct.new(:op, :request_id, :value) do
      def answers?(kind)
        (op == REFUSED ? REFUSABLE.fetch(value) : ANSWERS.fetch(op)).include?(kind)
      end
    end

    module_function

    # @return [String] the frame of an acquire of checked keys; wait and lease in seconds
    def acquire_frame(request_id, wait, lease, keys)
      if keys.size == 1
        key = keys[0]
        return [ACQUIRE, 10 + key.bytesize, request_id, wait, lease].pack("CnQ>CC") << key
      end
      records = records(keys)
      [ACQUIRE_SET, 10 + records.bytesize, request_id, wait, lease].pack("CnQ>CC") << records
    end

    # @return [String] the frame of a release of checked keys
    def release_frame(request_id, token, keys)
      if keys.size == 1
        key = keys[0]
        return [RELEASE, 16 + key.bytesize, request_id, token].pack("CnQ>Q>") << key
      end
      records = records(keys)
      [RELEASE_SET, 16 + records.bytesize, request_id, token].pack("CnQ>Q>") << records
    end

    # Count and keys of a set.
    def records(keys)
      keys.each_with_object([keys.size].pack("C")) { |key, out| out << [key.bytesize].pack("C") << key }
    end

    # Reads the reply frame at an offset. voters is the number of slots, 0 in single mode.
    # @return [Array(Reply, Integer), nil] the reply and the offset after it; nil if incomplete
    def decode_reply(data, offset, voters)
      op = data.getbyte(offset) or return
      expected = REPLY_BODY_SIZES[op] or raise ProtocolError, "reply has unknown opcode #{op}"
      raise ProtocolError, "leader announcement outside cluster mode" if op == LEADER && voters.zero?

      available = data.bytesize - offset
      return if available < HEAD_SIZE_BYTES

      size = (data.getbyte(offset + 1) << 8) | data.getbyte(offset + 2)
      if size != expected
        raise ProtocolError, "reply #{op.chr} has a body of #{size} instead of #{expected} bytes"
      end
      return if available < HEAD_SIZE_BYTES + size

      [decode_body(op, data.byteslice(offset + HEAD_SIZE_BYTES, size), voters),
       offset + HEAD_SIZE_BYTES + size]
    end

    def decode_body(op, body, voters)
      return Reply.new(op, 0, checked_slot(body.getbyte(0), voters)) if op == LEADER

      id, value = body.unpack(body.bytesize == 16 ? "Q>Q>" : "Q>C")
      raise ProtocolError, "reply answers request id 0" if id.zero?

      if op == MOVED
        checked_slot(value, voters)
      elsif op == REFUSED
        raise ProtocolError, "refusal carries unknown code #{value}" unless REFUSABLE.key?(value)
      elsif ACQUIRES.include?(op) && value.zero?
        raise ProtocolError, "grant carries token 0"
      end
      Reply.new(op, id, value || 0)
    end

    def checked_slot(slot, voters)
      return slot if slot == NO_SLOT || slot < voters

      raise ProtocolError, "reply names slot #{slot} of #{voters}"
    end

    # The server that a client expects at one address.
    class Identity
      # @return [Identity] of a server by itself
      def self.single
        new(0, NO_SLOT, Digest::SHA256.digest("ticketing/single/v3"))
      end

      # @return [Identity] of the cluster node in that slot
      def self.member(fingerprint, slot)
        new(1, slot, fingerprint)
      end

      def initialize(mode, slot, fingerprint)
        @mode = mode
        @slot = slot
        @fingerprint = fingerprint
      end

      # Checks a server hello against this identity and answers it. The token never crosses the
      # wire. "Connection".
      def proof(hello, token)
        version, mode, slot = hello.byteslice(8, 4).unpack("nCC")
        raise ProtocolError, "not a Ticketing server (wrong magic)" unless hello.start_with?(MAGIC)
        raise ProtocolError, "server speaks protocol version #{version}" if version != VERSION
        raise ProtocolError, "server runs in another mode than configured" if mode != @mode
        raise ProtocolError, "server has slot #{slot}, not #{@slot}" if slot != @slot

        message = PROOF_DOMAIN + hello.byteslice(8, 3) + @fingerprint + hello.byteslice(11, 17)
        OpenSSL::HMAC.digest("SHA256", token, message)
      end
    end
  end
end
