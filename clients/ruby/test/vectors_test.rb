# frozen_string_literal: true

require "support"

# The golden vectors, both directions, cut everywhere.
class VectorsTest < Minitest::Test
  Wire = Ticketing::Wire

  # Defines one test per case.
  def self.each_case(*topics, &check)
    topics.each do |topic|
      Server.vectors(topic).each do |vector|
        define_method("test_#{vector["id"]}_#{vector["note"].tr(" ", "_")}") { instance_exec(vector, &check) }
      end
    end
  end

  each_case("request-acquire", "request-release", "request-acquire-set", "request-release-set") do |vector|
    data = Server.bytes(vector["hex"])
    request = request_of(vector)
    assert_equal data, encode(request)
    assert_equal [request, data.bytesize], Server.decode_request(data)
    data.bytesize.times { |cut| assert_nil Server.decode_request(data.byteslice(0, cut)) }
    assert_equal request.keys, Ticketing::Settings.check_keys(request.keys)
  end

  each_case("invalid-value-request", "order-of-checks") do |vector|
    if vector["layer"] == "frame"
      assert_raises(Server::BadFrame) { Server.decode_request(Server.bytes(vector["hex"])) }
    elsif !%w[2 7].include?(vector["code"]) # Lease: settings_test.rb; a client never has token 0.
      assert_refused(request_of(vector), vector)
    end
  end

  # The tests' own server must see them, to be a judge of requests.
  each_case("invalid-frame-request") do |vector|
    assert_raises(Server::BadFrame) { Server.decode_request(Server.bytes(vector["hex"])) }
  end

  each_case("reply-single", "reply-cluster") do |vector|
    data = Server.bytes(vector["hex"])
    fields = vector["fields"]
    value = fields.values_at("token", "slot", "code").compact.first.to_i
    id = fields["request_id"].to_i
    assert_equal data, Server.reply(fields["op"], id, value)
    voters = vector["voter_count"]
    data.bytesize.times { |cut| assert_nil Wire.decode_reply("x".b << data.byteslice(0, cut), 1, voters) }
    assert_equal [Wire::Reply.new(fields["op"].ord, id, value), 1 + data.bytesize],
                 Wire.decode_reply("x".b << data << "x", 1, voters)
  end

  each_case("invalid-frame-reply", "invalid-value-reply", "invalid-correlation") do |vector|
    data = Server.bytes(vector["hex"])
    (0..data.bytesize).each do |cut|
      session = accepted(vector["voter_count"])
      vector.fetch("requests_hex", []).each { |digits| send_on(session, Server.bytes(digits)) }
      assert_raises(Wire::ProtocolError, "cut at #{cut}") do
        [data.byteslice(0, cut), data.byteslice(cut..)].each { |part| session.receive(part) { nil } }
      end
    end
  end

  each_case("hello", "invalid-hello") do |vector|
    data = Server.bytes(vector["hex"])
    (0..data.bytesize).each do |cut|
      session = Ticketing::Session.new(identity(vector, vector["expected_slot"]), "", vector["voter_count"])
      proof = session.handshake(data.byteslice(0, cut)) + session.handshake(data.byteslice(cut..))
      assert_equal vector["expect"] == "ok" ? 32 : 0, proof.bytesize
    rescue Wire::ProtocolError
      assert_equal "reject", vector["expect"]
    end
  end

  each_case("proof", "invalid-proof") do |vector|
    if vector["direction"] == "result"
      session = greeted
      assert_raises(Wire::ProtocolError) { session.handshake(Server.bytes(vector["hex"])) }
    else
      fields = vector["fields"]
      hello = Server.hello(fields["mode"].to_i, fields["slot"].to_i, Server.bytes(fields["nonce_hex"]))
      expected = identity(vector, fields["slot"].to_i, Server.bytes(fields["fingerprint_hex"]))
      proof = expected.proof(hello, Server.bytes(fields["token_hex"]))
      assert_equal vector["expect"] == "ok", proof.unpack1("H*") == vector["hex"]
    end
  end

  def test_a_refused_token
    session = greeted
    assert_raises(Wire::TokenRefusedError) { session.handshake("\0".b) }
  end

  def test_replies_are_matched_however_they_are_split
    data = Server.reply("L", 0,
                        2) + Server.reply("S", 3, 7) + Server.reply("M", 2, 255) + Server.reply("E", 1, 2)
    (0..data.bytesize).each do |cut|
      session = accepted(3)
      session.acquire(:one, 0, 1, ["a"])
      session.release(:two, 9, ["a"])
      session.acquire(:three, 0, 1, %w[a b])
      seen = []
      [data.byteslice(0, cut), data.byteslice(cut..)].each do |part|
        session.receive(part) { |owner, reply| seen << [owner, reply.op.chr, reply.value] }
      end
      assert_equal [[nil, "L", 2], [:three, "S", 7], [:two, "M", 255], [:one, "E", 2]], seen
      assert_equal 0, session.outstanding
    end
  end

  def test_replies_right_behind_the_handshake_are_kept
    session = Ticketing::Session.new(Wire::Identity.member("\0" * 32, 0), "", 3)
    session.handshake(Server.hello(1, 0) << "\1" << Server.reply("L", 0, 1))
    assert_predicate session, :accepted?
    seen = []
    session.receive("".b) { |_, reply| seen << reply.value }
    assert_equal [1], seen
  end

  private

  def request_of(vector)
    fields = vector["fields"]
    digits = fields["keys_hex"] || [fields["key_hex"]]
    Server::Request.new(fields["op"], fields["request_id"].to_i, digits.map { |key| Server.bytes(key) },
                        fields["wait"].to_i, fields["lease"].to_i, fields["token"].to_i)
  end

  def encode(request)
    if "AS".include?(request.op)
      Wire.acquire_frame(request.request_id, request.wait, request.lease, request.keys)
    else
      Wire.release_frame(request.request_id, request.token, request.keys)
    end
  end

  def assert_refused(request, vector)
    single = "AR".include?(request.op)
    settings = Ticketing::Settings
    checked = single ? [settings.check_key(request.keys[0])] : settings.check_keys(request.keys)
    # A set in another order or with duplicates is repaired rather than refused.
    assert_equal "5", vector["code"]
    assert(checked != request.keys || checked.size == 1)
  rescue Ticketing::InvalidInputError
    pass
  end

  def greeted
    session = Ticketing::Session.new(Wire::Identity.single, "", 0)
    session.handshake(Server.hello)
    session
  end

  def accepted(voters)
    identity = voters.zero? ? Wire::Identity.single : Wire::Identity.member("\0" * 32, 0)
    session = Ticketing::Session.new(identity, "", voters)
    session.handshake((voters.zero? ? Server.hello : Server.hello(1, 0)) << "\1")
    session
  end

  def send_on(session, frame)
    request, = Server.decode_request(frame)
    session.instance_variable_set(:@last_id, request.request_id - 1)
    sent = if "AS".include?(request.op)
             session.acquire(:owner, request.wait, request.lease, request.keys)
           else
             session.release(:owner, request.token, request.keys)
           end
    assert_equal frame, sent
  end

  def identity(vector, slot, fingerprint = "\0" * 32)
    vector["mode"] == "single" ? Wire::Identity.single : Wire::Identity.member(fingerprint, slot)
  end
end
