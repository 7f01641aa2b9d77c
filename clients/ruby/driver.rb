# frozen_string_literal: true

# Exposes the client's public API on standard input and output, for the conformance suite. The
# contract is conformance/DRIVER.md. Every command runs in a thread of its own.

require_relative "lib/ticketing"

# Commands in, outcomes out.
class Driver
  BadCommand = Class.new(StandardError)
  KNOWN = {
    "open" => %w[addrs mode fingerprint token tls server_name pending],
    "ready" => %w[broker timeout_ms],
    "acquire" => %w[broker key wait_ms lease budget_ms],
    "acquire-set" => %w[broker keys wait_ms lease budget_ms],
    "cancel" => %w[target],
    "release" => %w[ticket],
    "drop" => %w[ticket],
    "close" => %w[broker],
    "pairs" => %w[broker key callers count]
  }.freeze
  # What open, cancel and drop do is in place before the next command is read.
  AT_ONCE = %w[open cancel drop].freeze

  def initialize
    @brokers = {}
    @threads = {}
    @tickets = {}
    @output = Mutex.new
  end

  def run
    $stdin.each_line(chomp: true) { |line| command(line) unless line.empty? }
    @threads.each_value(&:kill)
    @brokers.each_value(&:close)
  end

  private

  def command(line)
    verb, tag, *words = line.split
    options = parse(verb, words)
    work = method(verb.tr("-", "_"))
    return say(outcome(tag) { work.call(tag, options) }) if AT_ONCE.include?(verb)

    listed = Thread::Queue.new
    @threads[tag] = Thread.new do
      listed.pop # Whoever cancels it finds it in the table.
      run_cancellable(tag) { work.call(tag, options) }
    end
    @threads[tag].report_on_exception = false
    listed << true
  rescue BadCommand
    say("#{tag || verb} error BadCommand")
  end

  # Only the work itself is cancelled, never its report.
  def run_cancellable(tag, &work)
    Thread.handle_interrupt(Ticketing::CancelledError => :never) do
      text = outcome(tag) do
        Thread.handle_interrupt(Ticketing::CancelledError => :on_blocking, &work)
      end
      say(text)
    end
  end

  def parse(verb, words)
    known = KNOWN[verb] or raise BadCommand
    options = words.to_h { |word| word.include?("=") ? word.split("=", 2) : raise(BadCommand) }
    raise BadCommand unless (options.keys - known).empty?

    options
  end

  def outcome(tag)
    "#{tag} #{yield}"
  rescue BadCommand, ArgumentError, KeyError
    "#{tag} error BadCommand"
  rescue Ticketing::RejectedError => e
    "#{tag} error Rejected #{e.code}"
  rescue Ticketing::Error => e
    warn("#{tag}: #{e.message}")
    "#{tag} error #{e.class.name.delete_prefix("Ticketing::").delete_suffix("Error")}"
  end

  def say(text)
    @output.synchronize { $stdout.write("#{text}\n") }
  end

  # Words of the contract.

  def bytes(digits)
    raise BadCommand unless digits.match?(/\A(-|(\h\h)*)\z/)

    [digits.delete("-")].pack("H*")
  end

  # A key that is no valid text is still a String: the client refuses it.
  def text(digits)
    bytes(digits).force_encoding(Encoding::UTF_8)
  end

  def broker(options)
    @brokers.fetch(options.fetch("broker"))
  end

  def tls(kind)
    case kind
    when "off" then false
    when "system" then true
    when "insecure"
      OpenSSL::SSL::SSLContext.new.tap { |context| context.verify_mode = OpenSSL::SSL::VERIFY_NONE }
    when /\Aca:/ then kind.delete_prefix("ca:")
    else raise BadCommand
    end
  end

  def terms(options)
    { wait: Rational(Integer(options.fetch("wait_ms"), 10), 1000),
      lease: Integer(options.fetch("lease"), 10),
      budget: Rational(Integer(options.fetch("budget_ms", "0"), 10), 1000) }
  end

  def granted(tag, ticket)
    @tickets[tag] = ticket
    "granted token=#{ticket.token} remaining_ms=#{(ticket.remaining * 1000).floor}"
  end

  # Commands.

  def open(tag, options)
    settings = { server_name: options["server_name"], tls: tls(options.fetch("tls", "off")) }
    settings[:token] = bytes(options["token"]) if options["token"]
    settings[:pending_limit] = Integer(options["pending"], 10) if options["pending"]
    case options.fetch("mode")
    when "single" then settings[:fingerprint] = options["fingerprint"]
    when "cluster" then settings[:fingerprint] = options.fetch("fingerprint", "")
    else raise BadCommand
    end
    @brokers[tag] = Ticketing.open(options.fetch("addrs").split(","), **settings)
    "ok"
  end

  def ready(_tag, options)
    broker(options).ready(Integer(options.fetch("timeout_ms"), 10) / 1000.0)
    "ok"
  end

  def acquire(tag, options)
    granted(tag, broker(options).acquire(text(options.fetch("key")), **terms(options)))
  end

  def acquire_set(tag, options)
    keys = options.fetch("keys").split(",").map { |digits| text(digits) }
    granted(tag, broker(options).acquire_set(keys, **terms(options)))
  end

  def cancel(_tag, options)
    @threads.fetch(options.fetch("target")).raise(Ticketing::CancelledError)
    "ok"
  end

  def release(_tag, options)
    @tickets.fetch(options.fetch("ticket")).release ? "released" : "not-held"
  end

  def drop(_tag, options)
    @tickets.fetch(options.fetch("ticket")).abandon
    "ok"
  end

  def close(_tag, options)
    broker(options).close
    "ok"
  end

  def pairs(_tag, options)
    broker = broker(options)
    callers, count = options.values_at("callers", "count").map { |number| Integer(number, 10) }
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    threads = Array.new(callers) do |caller|
      key = "#{text(options.fetch("key"))}#{caller}"
      Thread.new { failed_pairs(broker, key, (count + callers - 1 - caller) / callers) }
    end
    failed = threads.sum(&:value)
    elapsed = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - began
    "pairs count=#{count} failed=#{failed} nanoseconds=#{elapsed}"
  end

  def failed_pairs(broker, key, count)
    count.times.count do
      !broker.acquire(key, wait: 5, lease: 30).release
    rescue Ticketing::Error
      true
    end
  end
end

$stdout.sync = true
Driver.new.run
