# frozen_string_literal: true

require "world"

# Inputs are checked before anything is sent.
class SettingsTest < Minitest::Test
  include Ticketing

  TOKEN = "0123456789abcdef"

  def refused(&block)
    assert_raises(InvalidInputError, &block)
  end

  def test_loopback_needs_no_token
    %w[127.0.0.1:5225 127.9.9.9:1 localhost:65535 [::1]:5225].each do |address|
      assert_equal 0, World.settings(address).voters
    end
  end

  def test_other_addresses_need_a_token
    %w[locks.example:5225 192.0.2.1:5225 [2001:db8::1]:1].each do |address|
      World.settings(address, token: TOKEN)
      assert_match(/set a token/, refused { World.settings(address) }.message)
    end
  end

  def test_addresses_that_are_none
    ["", "127.0.0.1", "127.0.0.1:", "h:0", "h:65536", "h:http", "h:-1", "h: 1", "::1:1", ":5225", "a:1,b:2",
     "[h]:1", "[::1]", "h/x:1", "h:1\n"].each do |address|
      refused { World.settings(address, token: TOKEN) }
    end
  end

  def test_number_of_addresses
    7.times do |count|
      addresses = ["127.0.0.1:1"] * count
      count == 1 ? World.settings(addresses) : refused { World.settings(addresses) }
      if [3, 5].include?(count)
        assert_equal count, World.settings(addresses, fingerprint: World::FINGERPRINT).voters
      else
        refused { World.settings(addresses, fingerprint: World::FINGERPRINT) }
      end
    end
  end

  def test_token_size
    [16, 4096].each { |size| assert_equal size, World.settings(token: "t" * size).token.bytesize }
    [0, 15, 4097].each { |size| refused { World.settings(token: "t" * size) } }
  end

  def test_a_server_name_needs_tls
    [{}, { tls: nil }, { tls: false }].each do |tls|
      error = refused { World.settings(server_name: "locks.example", **tls) }
      assert_match(/server_name "locks.example" without tls/, error.message)
    end
    assert_equal "locks.example", World.settings(server_name: "locks.example", tls: true).server_name
  end

  def test_limits
    %i[pending_limit release_queue_limit].each do |name|
      [1, 16_384].each { |count| World.settings(name => count) }
      [0, 16_385, -1, 1.5, nil].each { |count| refused { World.settings(name => count) } }
    end
  end

  def test_fingerprints
    addresses = ["127.0.0.1:1"] * 3
    digits = World::FINGERPRINT.unpack1("H*")
    domain = World.settings(addresses, fingerprint: digits).domain
    assert_equal Domain.new(World::FINGERPRINT), domain
    assert_equal digits, domain.to_s
    assert_equal "single", World.settings.domain.to_s
    ["", digits[2..], "#{digits}00", "z#{digits[1..]}", "#{digits}\n"].each do |wrong|
      refused { World.settings(addresses, fingerprint: wrong) }
    end
  end

  def test_terms
    assert_equal Terms.new(0, 1, 0.0), Settings.check_terms(0, 1, 0)
    assert_equal Terms.new(1, 250, 249.999), Settings.check_terms(0.001, 250.0, 249.999)
    assert_equal Terms.new(255, 2, 1.0), Settings.check_terms(255, 2, 1r)
  end

  def test_terms_that_are_refused
    [[-0.001, 30, 0], [255.001, 30, 0], [Float::NAN, 30, 0], [Float::INFINITY, 30, 0], [0, 0, 0], [0, 251, 0],
     [0, 1.5, 0], [0, Float::NAN, 0], [0, 1, 1], [0, 1, -0.001], [0, 1, Float::NAN], ["1", 1, 0], [0, nil, 0],
     [1i, 1, 0]].each do |terms|
      refused { Settings.check_terms(*terms) }
    end
  end

  def test_keys
    assert_equal "\0\té".b, Settings.check_key("\0\té")
    assert_equal "é".b, Settings.check_key("é".encode("ISO-8859-1"))
    assert_equal "é".b, Settings.check_key("é".b)
    assert_equal 128, Settings.check_key("k" * 128).bytesize
    ["", "k" * 129, "é" * 65, "a b", "a\n", "\r", "\xFF", "\xFF".b, :k, nil].each do |key|
      refused { Settings.check_key(key) }
    end
  end

  def test_key_sets
    assert_equal %w[a b é].map(&:b), Settings.check_keys(%w[b é a b])
    assert_equal ["a"], Settings.check_keys(%w[a a])
    # Bytes, not UTF-16 code units.
    assert_equal ["\uffff".b, "\u{10000}".b], Settings.check_keys(["\u{10000}", "\uffff"])
    Settings.check_keys(("a".."p").to_set)
    [[], "a".."q", "ab", nil, { "a" => 1 }, ["a", " "]].each { |keys| refused { Settings.check_keys(keys) } }
  end
end
