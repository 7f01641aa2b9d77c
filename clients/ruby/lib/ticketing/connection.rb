# frozen_string_literal: true

require "socket"

module Ticketing
  # One TCP (and TLS) connection of a link, without blocking. It belongs to the worker's thread.
  # @api private
  class Connection
    # What may go wrong on a socket.
    FAILURES = [SystemCallError, IOError, SocketError, OpenSSL::SSL::SSLError].freeze

    def initialize(worker, link, settings)
      @worker = worker
      @link = link
      @epoch = link.epoch
      @settings = settings
      @state = :resolving # :connecting, :securing, :open, :closed
      @wants = :wait_readable # While securing.
      @io = nil # The socket, or TLS on it.
      @pending = ""
      @reason = nil
    end

    # What select watches, once there is a socket.
    attr_reader :socket

    def wants_read?
      @state == :open || (@state == :securing && @wants == :wait_readable)
    end

    def wants_write?
      case @state
      when :connecting then true
      when :securing then @wants == :wait_writable
      when :open then !@pending.empty?
      else false
      end
    end

    # Begins to connect.
    def start(now)
      host, port = @link.address.to_a
      if @settings.numeric?(host)
        resolved([Addrinfo.tcp(host, port)], now)
      else
        resolve(host, port)
      end
    end

    # The socket is ready for what was wanted.
    def ready(now)
      case @state
      when :connecting then finish_connecting(now)
      when :securing then secure(now)
      when :open
        read(now)
        write(now)
      end
    rescue *FAILURES => e
      failed(e.message, now)
    end

    # Writes the link's output while the socket takes it.
    def write(now)
      return unless @state == :open

      loop do
        @pending = @link.output(@epoch, now) if @pending.empty?
        break if @pending.empty? || @state != :open

        written = @io.write_nonblock(@pending, exception: false)
        break unless written.is_a?(Integer)

        @pending = @pending.byteslice(written, @pending.bytesize - written)
      end
    rescue *FAILURES => e
      lost(e.message, now)
    end

    # Ends the connection from this side.
    def close
      @state = :closed
      # A process forked meanwhile may have a copy, and the server is to see the end all the same.
      %i[shutdown close].each do |step|
        @socket&.public_send(step)
      rescue *FAILURES
        nil # It is gone either way.
      end
    end

    private

    # Name resolution blocks, so it has a thread of its own.
    def resolve(host, port)
      Thread.new do
        found = begin
          Addrinfo.getaddrinfo(host, port, nil, :STREAM)
        rescue SocketError => e
          e
        end
        @worker.post { |now| resolved(found, now) if @state == :resolving }
      end
    end

    def resolved(found, now)
      return lost(found.message, now) if found.is_a?(SocketError)

      @addresses = found
      connect_next(now)
    end

    # Tries the host's next address.
    def connect_next(now)
      @address = @addresses.shift or return lost(@reason || "the host has no address", now)
      make_socket
      finish_connecting(now)
    rescue *FAILURES => e
      failed(e.message, now)
    end

    def make_socket
      @socket&.close
      @socket = Socket.new(@address.afamily, :STREAM)
      @socket.setsockopt(:SOCKET, :KEEPALIVE, true)
      @socket.setsockopt(:TCP, :NODELAY, true)
      @state = :connecting
    end

    def finish_connecting(now)
      return if @socket.connect_nonblock(@address, exception: false) == :wait_writable

      connected(now)
    rescue Errno::EISCONN
      connected(now)
    end

    def connected(now)
      @link.connected(@epoch, now)
      return opened(@socket) unless @settings.tls

      ssl = OpenSSL::SSL::SSLSocket.new(@socket, @settings.tls)
      # RFC 6066: the name indication is never an address.
      ssl.hostname = name unless @settings.numeric?(name)
      @io = ssl
      @state = :securing
      secure(now)
    end

    # The name that the server's certificate must hold.
    def name
      @settings.server_name || @link.address.host
    end

    def secure(now)
      result = @io.connect_nonblock(exception: false)
      return @wants = result if result.is_a?(Symbol)

      # OpenSSL checks the chain; the name is checked here, whatever the context says of names.
      @io.post_connection_check(name) unless @settings.tls.verify_mode == OpenSSL::SSL::VERIFY_NONE
      opened(@io)
      read(now)
    end

    def opened(io)
      @io = io
      @state = :open
    end

    def read(now)
      while @state == :open
        data = @io.read_nonblock(Limits::READ_SIZE_BYTES, exception: false)
        return lost("the server closed the connection", now) if data.nil?
        return if data.is_a?(Symbol)

        @link.received(@epoch, data, now)
        # A plain socket that gave less has no more; TLS may hold back.
        return if @io.equal?(@socket) && data.bytesize < Limits::READ_SIZE_BYTES
      end
    end

    # Until TCP is connected, there may be another address.
    def failed(reason, now)
      return lost(reason, now) unless @state == :resolving || @state == :connecting

      @reason = reason
      connect_next(now)
    end

    def lost(reason, now)
      close
      @worker.forget(@link, self)
      # Under TLS what a write returns is plain text, which proves nothing.
      @link.lost(@epoch, reason, now, @io.equal?(@socket) ? @pending.bytesize : 0)
    end
  end
end
