# frozen_string_literal: true

require "support"

# An engine on virtual time, and the server's ends of its connections.
class World
  FINGERPRINT = (0...32).to_a.pack("C*").freeze

  attr_reader :engine, :connects, :disconnects
  attr_accessor :now

  def self.settings(addresses = "127.0.0.1:5225", **changes)
    defaults = { fingerprint: nil, token: nil, tls: false, server_name: nil, pending_limit: 1024,
                 release_queue_limit: 1024 }
    Ticketing::Settings.new(addresses, **defaults, **changes)
  end

  # A single server with both links usable.
  def self.single(**changes)
    new(settings(**changes)).up
  end

  # A cluster with all links usable.
  def self.cluster(voters = 3)
    addresses = (1..voters).map { |port| "127.0.0.1:#{port}" }
    new(settings(addresses, fingerprint: FINGERPRINT)).up
  end

  def initialize(settings = World.settings, timing: Ticketing::TIMING)
    @now = 1000.0
    @engine = Ticketing::Engine.new(settings, timing)
    @connects = []
    @disconnects = []
    @engine.start(@now)
    pump
  end

  def links
    @engine.links
  end

  # Takes links, by default all, through the handshake.
  def up(*chosen)
    (chosen.empty? ? links : chosen).each do |link|
      link.connected(link.epoch, @now)
      feed(link, link.slot ? Server.hello(1, link.slot) : Server.hello)
      raise "no proof" unless link.output(link.epoch, @now).bytesize == 32

      feed(link, "\1")
    end
    self
  end

  def feed(link, data)
    link.received(link.epoch, data.b, @now)
    pump
  end

  def reply(link, op, request_id = 0, value = 0)
    feed(link, Server.reply(op, request_id, value))
  end

  def cut(link)
    link.lost(link.epoch, "cut", @now)
    pump
  end

  # Lets time pass, from deadline to deadline.
  def pass(seconds)
    limit = @now + seconds
    while (at = @engine.timers.next) && at <= limit
      @now = [@now, at].max
      @engine.timers.expire(@now)
      pump
    end
    @now = limit
  end

  # Lets time pass until the next deadline.
  def pass_to_next
    pass(@engine.timers.next - @now)
  end

  # Hands all output to the sockets and returns the requests in it, with their links.
  def sent
    requests = links.flat_map do |link|
      data = "".b
      until (part = link.output(link.epoch, @now)).empty?
        data << part
      end
      decode(data).map { |request| [link, request] }
    end
    pump
    requests
  end

  # The only request that was sent.
  def one
    all = sent
    raise "#{all.size} requests were sent" unless all.size == 1

    all.first
  end

  def acquire(*keys, wait: 10, lease: 30, budget: 0)
    terms = Ticketing::Settings.check_terms(wait, lease, budget)
    call = Ticketing::AcquireCall.new(Ticketing::Settings.check_keys(keys), terms) { nil }
    @engine.acquire(call, @now)
    pump
    call
  end

  def release(token = 41, key = "k")
    call = Ticketing::ReleaseCall.new([key], token) { nil }
    @engine.release(call, @now)
    pump
    call
  end

  def ready(timeout)
    call = Ticketing::ReadyCall.new(timeout) { nil }
    @engine.ready(call, @now)
    call
  end

  # Does what a worker does with actions. Output waits in the links until it is read.
  def pump
    @engine.actions.each do |action, link|
      (action == :connect ? @connects : @disconnects) << link
    end
    @engine.actions.clear
  end

  private

  def decode(data)
    requests = []
    until data.empty?
      request, size = Server.decode_request(data)
      requests << request
      data = data.byteslice(size..)
    end
    requests
  end
end
