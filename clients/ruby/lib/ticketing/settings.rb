# frozen_string_literal: true

require "ipaddr"
require "openssl"

module Ticketing
  # The fencing domain of a token: tokens of two domains must never be compared.
  class Domain
    # @return [String, nil] the cluster's 32-byte identity; nil for a single server
    attr_reader :fingerprint

    # @param fingerprint [String, nil]
    def initialize(fingerprint = nil)
      @fingerprint = fingerprint&.dup&.freeze
      freeze
    end

    # Whether both tokens come from the same counter.
    def ==(other)
      other.is_a?(Domain) && other.fingerprint == fingerprint
    end
    alias eql? ==

    def hash
      fingerprint.hash
    end

    # @return [String] "single", or the fingerprint in hex digits
    def to_s
      fingerprint ? fingerprint.unpack1("H*") : "single"
    end
  end

  # Where a server listens.
  # @api private
  Address = Struct.new(:host, :port)

  # The terms of an acquire: wait and lease in whole seconds, budget in seconds.
  # @api private
  Terms = Struct.new(:wait, :lease, :budget)

  # Settings of a broker and arguments of calls, checked by the same rules as the server's.
  # @api private
  class Settings
    attr_reader :addresses, :domain, :token, :tls, :server_name, :pending_limit, :release_queue_limit

    def initialize(addresses, fingerprint:, token:, tls:, server_name:, pending_limit:,
                   release_queue_limit:)
      @token = check_token(token)
      @addresses = Array(addresses).map { |text| address(text) }
      check_count(fingerprint)
      @domain = Domain.new(fingerprint && check_fingerprint(fingerprint))
      @tls = tls_context(tls)
      @server_name = check_server_name(server_name)
      @pending_limit = check_limit("pending_limit", pending_limit)
      @release_queue_limit = check_limit("release_queue_limit", release_queue_limit)
      freeze
    end

    # Number of slots, 0 in single mode.
    def voters
      domain.fingerprint ? addresses.size : 0
    end

    # Whether the host is an address rather than a name.
    def numeric?(host)
      !ip(host).nil?
    end

    # A secret is not shown.
    def inspect
      "#<#{self.class} #{addresses.map(&:to_a)} domain=#{domain}>"
    end

    class << self
      # @return [Terms] with fractions of wait rounded up
      def check_terms(wait, lease, budget)
        unless [wait, lease, budget].all? { |value| value.is_a?(Numeric) && value.real? }
          raise InvalidInputError, "wait, lease and budget are numbers of seconds"
        end

        check_wait(wait)
        check_lease(lease)
        unless budget >= 0 && budget < lease # False for NaN.
          raise InvalidInputError, "budget is #{budget} s: 0 to less than the lease (#{lease} s) are allowed"
        end

        Terms.new(wait.ceil, lease.to_i, budget.to_f)
      end

      # The key rule: 1-128 bytes of UTF-8 without space, LF or CR.
      # @return [String] its bytes
      def check_key(key)
        raise InvalidInputError, "a key is a String, not a #{key.class}" unless key.is_a?(String)

        text = utf8(key)
        raise InvalidInputError, "key #{key.inspect} is not valid UTF-8" unless text&.valid_encoding?

        size = text.bytesize
        unless size.between?(Limits::KEY_SIZE_BYTES_MIN, Limits::KEY_SIZE_BYTES_MAX)
          raise InvalidInputError, "a key has #{size} bytes: #{Limits::KEY_SIZE_BYTES_MIN} to " \
                                   "#{Limits::KEY_SIZE_BYTES_MAX} are allowed"
        end
        if text.match?(/[ \n\r]/)
          raise InvalidInputError, "key #{key.inspect} has a space, LF or CR: leave it out"
        end

        text.b.freeze
      end

      # A set: sorted bytewise, without duplicates, 1-16 keys.
      def check_keys(keys)
        unless keys.respond_to?(:each) && !keys.is_a?(Hash)
          raise InvalidInputError, "keys is a #{keys.class}: give a collection of Strings"
        end

        set = keys.map { |key| check_key(key) }.uniq.sort.freeze
        return set if set.size.between?(1, Limits::SET_KEY_COUNT_MAX)

        raise InvalidInputError,
              "a key set has #{set.size} keys: 1 to #{Limits::SET_KEY_COUNT_MAX} are allowed"
      end

      private

      def utf8(key)
        return key.dup.force_encoding(Encoding::UTF_8) if key.encoding == Encoding::BINARY

        key.encode(Encoding::UTF_8)
      rescue EncodingError
        nil
      end

      def check_wait(wait)
        return if wait >= 0 && wait <= Limits::WAIT_SECONDS_MAX

        raise InvalidInputError, "wait is #{wait} s: 0 to #{Limits::WAIT_SECONDS_MAX} s are allowed"
      end

      def check_lease(lease)
        # Comparisons with NaN are false.
        return if lease >= Limits::LEASE_SECONDS_MIN && lease <= Limits::LEASE_SECONDS_MAX &&
                  (lease % 1).zero?

        raise InvalidInputError, "lease is #{lease} s: whole seconds from " \
                                 "#{Limits::LEASE_SECONDS_MIN} to #{Limits::LEASE_SECONDS_MAX} are allowed"
      end
    end

    private

    def check_count(fingerprint)
      count = @addresses.size
      if fingerprint.nil? && count != 1
        raise InvalidInputError, "a single server has 1 address, not #{count}: set fingerprint for a cluster"
      end
      return if fingerprint.nil? || [3, 5].include?(count)

      raise InvalidInputError, "a cluster has 3 or 5 addresses, not #{count}"
    end

    def check_token(token)
      return "".b.freeze if token.nil?

      size = token.bytesize
      unless size.between?(Limits::TOKEN_SIZE_BYTES_MIN, Limits::TOKEN_SIZE_BYTES_MAX)
        raise InvalidInputError, "the token has #{size} bytes: #{Limits::TOKEN_SIZE_BYTES_MIN} to " \
                                 "#{Limits::TOKEN_SIZE_BYTES_MAX} are allowed"
      end
      token.b.freeze
    end

    def check_fingerprint(fingerprint)
      digits = 2 * Limits::FINGERPRINT_SIZE_BYTES
      return fingerprint.b if fingerprint.bytesize == Limits::FINGERPRINT_SIZE_BYTES
      return [fingerprint].pack("H*") if fingerprint.match?(/\A\h{#{digits}}\z/o)

      raise InvalidInputError, "the fingerprint #{fingerprint.inspect} is not #{digits} hex digits: " \
                               "copy it from the server's start line"
    end

    # After @tls.
    def check_server_name(name)
      return name if name.nil? || @tls

      raise InvalidInputError, "server_name #{name.inspect} without tls: no certificate is looked at; " \
                               "give tls too, or no name"
    end

    def check_limit(name, count)
      return count if count.is_a?(Integer) && count.between?(1, Limits::CALL_LIMIT_MAX)

      raise InvalidInputError, "#{name} is #{count}: 1 to #{Limits::CALL_LIMIT_MAX} are allowed"
    end

    def address(text)
      match = %r{\A(?:\[(?<ip6>[\h:.]+)\]|(?<host>[^\s:\[\],/]+)):(?<port>\d{1,5})\z}.match(text)
      port = match ? match[:port].to_i : 0
      host = match && (match[:ip6] || match[:host])
      if !port.between?(1, 65_535) || (match[:ip6] && !ip(host)&.ipv6?)
        raise InvalidInputError, "address #{text.inspect} is not host:port (IPv6: [addr]:port)"
      end
      if @token.empty? && !loopback?(host)
        raise InvalidInputError, "address #{text.inspect} is not on loopback: set a token"
      end

      Address.new(host, port)
    end

    def loopback?(host)
      host == "localhost" || ip(host)&.loopback? || false
    end

    def ip(host)
      IPAddr.new(host)
    rescue IPAddr::Error
      nil
    end

    def tls_context(tls)
      case tls
      when false, nil then nil
      when OpenSSL::SSL::SSLContext then tls
      when true then verifying
      else verifying(cert_store: store(tls.to_s))
      end
    end

    def verifying(**trust)
      context = OpenSSL::SSL::SSLContext.new
      # The name is checked after the handshake, addresses included: Connection#secure.
      context.set_params(verify_mode: OpenSSL::SSL::VERIFY_PEER, verify_hostname: false, **trust)
      context
    end

    def store(path)
      OpenSSL::X509::Store.new.tap { |store| store.add_file(path) }
    rescue OpenSSL::X509::StoreError => e
      raise InvalidInputError, "CA file #{path} cannot be used: #{e.message}"
    end
  end
end
