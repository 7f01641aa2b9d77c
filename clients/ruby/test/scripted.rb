# frozen_string_literal: true

require "fileutils"
require "open3"
require "support"
require "timeout"
require "tmpdir"

# A server on a real socket that does what a test says.
class Script
  # Back-off short enough for tests.
  QUICK = Ticketing::TIMING.dup.tap { |timing| timing.backoff_min = timing.backoff_max = 0.005 }.freeze

  # The server's end of one connection.
  class Peer
    attr_reader :socket

    def initialize(socket)
      @socket = socket
      @input = "".b
    end

    # Reads one request.
    def next
      Timeout.timeout(Server::PATIENCE) do
        until (decoded = Server.decode_request(@input))
          @input << @socket.readpartial(65_536)
        end
        @input = @input.byteslice(decoded[1]..)
        decoded[0]
      end
    end

    def reply(op, request_id = 0, value = 0)
      @socket.write(Server.reply(op, request_id, value))
    end

    # Waits for the client to close, without having sent anything more.
    def closed?
      Timeout.timeout(Server::PATIENCE) { @socket.read(1).nil? }
    rescue Errno::ECONNRESET
      true
    end
  end

  attr_reader :peers, :address

  def initialize(context = nil)
    @listener = TCPServer.new("127.0.0.1", 0)
    @address = "127.0.0.1:#{@listener.local_address.ip_port}"
    @context = context
    @peers = []
  end

  # Accepts a connection, through TLS if there is any.
  def accept_raw
    socket = Timeout.timeout(Server::PATIENCE) { @listener.accept }
    return socket unless @context

    ssl = OpenSSL::SSL::SSLSocket.new(socket, @context)
    ssl.sync_close = true
    ssl.accept
  end

  # Accepts a connection, through its handshake.
  def accept
    socket = accept_raw
    socket.write(Server.hello)
    Timeout.timeout(Server::PATIENCE) { socket.read(32) } or raise EOFError, "no proof"
    socket.write("\1")
    @peers << Peer.new(socket)
    @peers.last
  end

  # Takes the next request, on whichever connection it comes.
  def next
    sockets = @peers.map(&:socket)
    ready, = IO.select(sockets, nil, nil, Server::PATIENCE)
    raise "no request came" unless ready

    peer = @peers.find { |each| each.socket.equal?(ready.first) }
    [peer, peer.next]
  end

  # Answers the next request and returns it.
  def answer(op, value = 0)
    peer, request = self.next
    peer.reply(op, request.request_id, value)
    request
  end

  def close
    @peers.each { |peer| peer.socket.close }
    @listener.close
  end
end

# A CA made with openssl, with a server certificate for localhost and 127.0.0.1.
class Authority
  def initialize
    @directory = Dir.mktmpdir
    openssl("req", "-x509", "-nodes", *key("ca"), "-out", "ca.pem", "-subj", "/CN=test CA", "-days", "2",
            "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-nodes", *key("leaf"), "-out", "leaf.csr", "-subj", "/CN=leaf")
    File.write(path("leaf.ext"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    openssl("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "leaf.pem", "-days", "2", "-extfile", "leaf.ext")
  end

  def ca
    path("ca.pem")
  end

  # The server's side, for exactly that version of TLS.
  def server(version)
    context = OpenSSL::SSL::SSLContext.new
    context.cert = OpenSSL::X509::Certificate.new(File.read(path("leaf.pem")))
    context.key = OpenSSL::PKey.read(File.read(path("leaf.key")))
    context.min_version = context.max_version = version
    context
  end

  def remove
    FileUtils.remove_entry(@directory)
  end

  private

  def path(name)
    File.join(@directory, name)
  end

  def key(name)
    ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", "#{name}.key"]
  end

  def openssl(*arguments)
    output, status = Open3.capture2e("openssl", *arguments, chdir: @directory)
    raise output unless status.success?
  end
end
