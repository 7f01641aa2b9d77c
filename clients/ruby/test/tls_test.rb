# frozen_string_literal: true

require "scripted"

# TLS: the right certificate is accepted, every other one is refused.
class TlsTest < Minitest::Test
  include Ticketing

  OWN = Authority.new
  OTHER = Authority.new
  Minitest.after_run { [OWN, OTHER].each(&:remove) }

  def accepts(version, trust)
    script = Script.new(OWN.server(version))
    acceptor = Thread.new { Array.new(2) { script.accept } }
    Ticketing.open(script.address, tls: trust, timing: Script::QUICK) do |broker|
      broker.ready(Server::PATIENCE)
      peer, = acceptor.value
      assert_equal({ TLS1_2: "TLSv1.2", TLS1_3: "TLSv1.3" }.fetch(version), peer.socket.ssl_version)
    end
  ensure
    script&.close
  end

  def test_own_ca_over_tls12
    accepts(:TLS1_2, OWN.ca)
  end

  def test_own_ca_over_tls13
    accepts(:TLS1_3, OWN.ca)
  end

  def test_a_context_made_by_accessors_is_checked_too
    own = lambda do
      context = OpenSSL::SSL::SSLContext.new
      context.ca_file = OWN.ca
      context.verify_mode = OpenSSL::SSL::VERIFY_PEER
      context
    end
    accepts(:TLS1_3, own.call)
    refuses(/hostname/i, tls: own.call, server_name: "elsewhere.example")
  end

  def refuses(reason, **settings)
    script = Script.new(OWN.server(:TLS1_3))
    server = Thread.new do
      loop do
        script.accept
      rescue OpenSSL::SSL::SSLError, EOFError, NoMethodError, SystemCallError
        next # The client went away, as it should.
      end
    rescue IOError
      nil # The listener is closed.
    end
    Ticketing.open(script.address, timing: Script::QUICK, **settings) do |broker|
      error = assert_raises(NotConnectedError) { broker.ready(1) }
      assert_match reason, error.message
    end
    assert_empty script.peers, "the client went on"
  ensure
    server&.kill&.join
    script&.close
  end

  def test_a_wrong_ca_is_refused
    refuses(/certificate verify failed/, tls: OTHER.ca)
  end

  def test_a_private_ca_is_no_system_root
    refuses(/certificate verify failed/, tls: true)
  end

  def test_a_wrong_host_name_is_refused
    refuses(/certificate verify failed|hostname/i, tls: OWN.ca, server_name: "elsewhere.example")
  end

  def test_a_wrong_address_is_refused
    refuses(/hostname/i, tls: OWN.ca, server_name: "127.0.0.2")
  end

  def test_a_ca_file_that_is_none
    Dir.mktmpdir do |directory|
      empty = File.join(directory, "empty.pem")
      File.write(empty, "no certificate")
      [empty, File.join(directory, "absent.pem")].each do |path|
        assert_raises(InvalidInputError) { Broker.new("127.0.0.1:5225", tls: path) }
      end
    end
  end
end
