# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "set"
require "ticketing"

# The server's side of the protocol, and the golden vectors.
module Server
  VECTORS = File.expand_path("../../../vectors", __dir__)
  # Bounds what a test waits for things that must happen. It is never the expected time.
  PATIENCE = 20
  BODY_SIZES = { "A" => 10..138, "R" => 16..144, "S" => 11..2075, "G" => 17..2081 }.freeze

  Request = Struct.new(:op, :request_id, :keys, :wait, :lease, :token)

  # What ends a connection.
  class BadFrame < StandardError; end

  module_function

  def vectors(topic)
    file = JSON.parse(File.read(File.join(VECTORS, "#{topic}.json")))
    raise topic unless file["format"] == 1 && file["case_count"] == file["cases"].size

    file["cases"]
  end

  def bytes(digits)
    [digits].pack("H*")
  end

  # The request frame at the start and its size; nil if it is incomplete.
  def decode_request(data)
    op = data[0]
    range = op && (BODY_SIZES[op] or raise BadFrame, "opcode")
    return if data.bytesize < 3

    size = data.unpack1("x n")
    raise BadFrame, "length" unless range.cover?(size)
    return if data.bytesize < 3 + size

    [decode_body(op, data.byteslice(3, size), range.begin), 3 + size]
  end

  def decode_body(op, body, fixed)
    request = Request.new(op, body.unpack1("Q>"), [body.byteslice(fixed..)], 0, 0, 0)
    raise BadFrame, "request id 0" if request.request_id.zero?

    if "AS".include?(op)
      request.wait, request.lease = body.unpack("@8CC")
    else
      request.token = body.unpack1("@8Q>")
    end
    request.keys = records(body.getbyte(fixed - 1), request.keys[0]) if "SG".include?(op)
    request
  end

  def records(count, data)
    keys = Array.new(count) do
      size = data.getbyte(0)
      raise BadFrame, "records" if size.nil? || data.bytesize < 1 + size

      key = data.byteslice(1, size)
      data = data.byteslice((1 + size)..)
      key
    end
    raise BadFrame, "records" unless data.empty?

    keys
  end

  # Value is the token, slot or code.
  def reply(op, request_id = 0, value = 0)
    body = op == "L" ? "".b : [request_id].pack("Q>")
    body << [value].pack("Q>") if "AS".include?(op)
    body << [value].pack("C") if "MLE".include?(op)
    [op.ord, body.bytesize].pack("Cn") << body
  end

  def hello(mode = 0, slot = 255, nonce = "\0" * 16)
    "TCKCLI3\0".b << [3, mode, slot].pack("nCC") << nonce
  end
end
