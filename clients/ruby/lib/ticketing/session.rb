# frozen_string_literal: true

module Ticketing
  # One connection as a state machine without I/O: handshake, then requests matched to replies.
  # An owner is whatever its user wants back with the answer to a request.
  # @api private
  class Session
    # voters is the number of slots, 0 in single mode.
    def initialize(identity, token, voters)
      @identity = identity
      @token = token
      @voters = voters
      @input = "".b
      @last_id = 0
      @outstanding = {}
      @accepted = false
    end

    # Whether the handshake is over and requests may be sent.
    def accepted?
      @accepted
    end

    # The token is not shown.
    def inspect
      "#<#{self.class} accepted=#{@accepted} outstanding=#{outstanding}>"
    end

    # Number of requests without an answer.
    def outstanding
      @outstanding.size
    end

    # Takes bytes until accepted. What follows the handshake is kept for receive("").
    # @return [String] the bytes to send back
    def handshake(data)
      size = Wire::HELLO_SIZE_BYTES
      before = @input.bytesize
      @input << data
      proof = ""
      proof = @identity.proof(@input.byteslice(0, size), @token) if before < size && @input.bytesize >= size
      take_verdict(@input.getbyte(size)) if @input.bytesize > size
      proof
    end

    # Numbers an acquire and returns its frame.
    def acquire(owner, wait, lease, keys)
      @last_id += 1
      @outstanding[@last_id] = [keys.size == 1 ? Wire::ACQUIRE : Wire::ACQUIRE_SET, owner]
      Wire.acquire_frame(@last_id, wait, lease, keys)
    end

    # Numbers a release and returns its frame.
    def release(owner, token, keys)
      @last_id += 1
      @outstanding[@last_id] = [keys.size == 1 ? Wire::RELEASE : Wire::RELEASE_SET, owner]
      Wire.release_frame(@last_id, token, keys)
    end

    # Takes bytes, split anywhere, and yields replies with the owners of their requests, nil for
    # unsolicited ones. Raises ProtocolError where the session ends.
    def receive(data)
      data = @input << data unless @input.empty?
      offset = 0
      while (decoded = Wire.decode_reply(data, offset, @voters))
        reply, offset = decoded
        yield owner(reply), reply
      end
      @input = data.byteslice(offset, data.bytesize - offset)
    end

    # Ends the session and returns the owners of all requests without an answer.
    def abandon
      owners = @outstanding.values.map { |_, owner| owner }
      @outstanding.clear
      owners
    end

    private

    def take_verdict(verdict)
      raise Wire::TokenRefusedError, "server refused the token" if verdict == Wire::TOKEN_REFUSED
      raise Wire::ProtocolError, "server answered the proof with byte #{verdict}" if verdict != Wire::ACCEPTED

      @accepted = true
      after = Wire::HELLO_SIZE_BYTES + 1
      @input = @input.byteslice(after, @input.bytesize - after)
    end

    def owner(reply)
      return if reply.op == Wire::LEADER

      kind, owner = @outstanding[reply.request_id]
      raise Wire::ProtocolError, "reply answers request #{reply.request_id}, which is not open" if kind.nil?
      unless reply.answers?(kind)
        raise Wire::ProtocolError, "reply #{reply.op.chr} does not fit a #{kind.chr} request"
      end

      @outstanding.delete(reply.request_id)
      owner
    end
  end
end
