# frozen_string_literal: true

module Ticketing
  # The thread that runs an engine: moves bytes and keeps time. Whatever is decided is decided by
  # the engine.
  # @api private
  class Worker
    # Seconds on the monotonic clock.
    def self.now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def initialize(settings, timing)
      @settings = settings
      @process = Process.pid
      @engine = Engine.new(settings, timing)
      @connections = {}.compare_by_identity
      @inbox = Thread::Queue.new
      @dropped = Thread::Queue.new
      @lock = Mutex.new # Guards @asleep and @ended.
      @asleep = @ended = false
      @wake_reader, @wake_writer = IO.pipe
      @thread = Thread.new { run }
      @thread.name = "ticketing"
    end

    # Refuses calls in a process forked from the one that has the thread: they would wait for ever.
    def check_process
      return if here?

      raise ClosedError, "the broker belongs to process #{@process}, and this is a fork of it: " \
                         "make a broker in the child"
    end

    # Has the thread carry out a block with the time, in order. Safe for concurrent use. In a forked
    # process there is nothing to do.
    def post(&work)
      return unless here?

      @inbox << work
      ended = @lock.synchronize do
        wake if @asleep && !@ended
        @asleep = false
        @ended
      end
      carry_out if ended # By this thread: the engine refuses everything.
    end

    # Begins a call.
    def acquire(call)
      post { |now| @engine.acquire(call, now) }
    end

    # (see #acquire)
    def release(call)
      post { |now| @engine.release(call, now) }
    end

    # (see #acquire)
    def ready(call)
      post { |now| @engine.ready(call, now) }
    end

    # Releases what the garbage collector found. It calls from anywhere, even from inside #post, so
    # this takes no lock.
    def drop(keys, token)
      return unless here?

      @dropped << [keys, token]
      wake
    rescue IOError
      nil # The worker has ended.
    end

    # Closes the engine and waits for the thread's end. In a forked process both are the parent's.
    def close
      return unless here?

      post { |now| @engine.close(now) }
      @thread.join
    end

    # For connections, in the worker's thread: forgets one that has ended.
    def forget(link, connection)
      @connections.delete(link) if @connections[link].equal?(connection)
    end

    private

    def here?
      Process.pid == @process
    end

    def wake
      @wake_writer.write_nonblock(".", exception: false)
    end

    def run
      @engine.start(Worker.now)
      until @engine.closed?
        step
        wait_for_io
      end
    ensure
      end_engine
    end

    # Whatever ended the thread, nobody waits for ever.
    def end_engine
      now = Worker.now
      @engine.close(now)
      @engine.terminate(now) unless @engine.closed?
      @connections.each_value(&:close)
      @lock.synchronize { @ended = true }
      carry_out
      @wake_reader.close
      @wake_writer.close
    end

    def step
      carry_out
      release_dropped
      now = Worker.now
      @engine.timers.expire(now)
      pump(now)
    end

    def carry_out
      now = Worker.now
      @inbox.pop(true).call(now) until @inbox.empty?
    rescue ThreadError
      nil # Another thread took the last: at the end callers carry out their own.
    end

    def release_dropped
      until @dropped.empty?
        keys, token = @dropped.pop
        @engine.release(ReleaseCall.new(keys, token), Worker.now)
      end
    end

    # Carries out what the engine asks for.
    def pump(now)
      until @engine.writable.empty? && @engine.actions.empty?
        links = @engine.writable.keys
        @engine.writable.clear
        links.each { |link| @connections[link]&.write(now) }
        actions = @engine.actions.dup
        @engine.actions.clear
        actions.each { |action, link| act(action, link, now) }
      end
    end

    def act(action, link, now)
      if action == :connect
        connection = Connection.new(self, link, @settings)
        @connections[link] = connection
        connection.start(now)
      else
        @connections.delete(link)&.close
      end
    end

    def wait_for_io
      watched = @connections.values.select(&:socket)
      readers = watched.select(&:wants_read?).to_h { |connection| [connection.socket, connection] }
      writers = watched.select(&:wants_write?).to_h { |connection| [connection.socket, connection] }
      ready = IO.select([@wake_reader, *readers.keys], writers.keys, nil, time_to_sleep) or return
      drain_wake if ready[0].delete(@wake_reader)
      now = Worker.now
      found = readers.values_at(*ready[0]) + writers.values_at(*ready[1])
      found.uniq.each { |connection| connection.ready(now) }
    ensure
      @lock.synchronize { @asleep = false }
    end

    # Seconds until the next deadline, nil for ever, 0 if there is something to do.
    def time_to_sleep
      @lock.synchronize { @asleep = @inbox.empty? && @dropped.empty? }
      return 0 if !@asleep || @engine.closed?

      at = @engine.timers.next
      at && [at - Worker.now, 0].max
    end

    def drain_wake
      @wake_reader.read_nonblock(1024, exception: false)
    end
  end
end
