# frozen_string_literal: true

module Ticketing
  # At most one deadline per owner, in the order they are due; cancelled ones are forgotten in bulk.
  # An owner has an accessor `timer` for its entry and a method `expired(now)`.
  # @api private
  class Timers
    # One deadline; without an owner once it is cancelled.
    Entry = Struct.new(:at, :owner)

    # Below this size the list is not worth cleaning.
    COMPACT_COUNT_MIN = 64

    def initialize
      @entries = [] # Ascending.
      @cancelled = 0
    end

    # Replaces the owner's deadline.
    def set(owner, at)
      cancel(owner)
      owner.timer = entry = Entry.new(at, owner)
      # Most deadlines are later than all others.
      if @entries.empty? || @entries.last.at <= at
        @entries.push(entry)
      else
        @entries.insert(@entries.bsearch_index { |other| other.at > at }, entry)
      end
    end

    # Removes the owner's deadline, if it has one.
    def cancel(owner)
      entry = owner.timer or return
      owner.timer = entry.owner = nil
      @cancelled += 1
      return if @cancelled <= COMPACT_COUNT_MIN || @cancelled <= @entries.size / 2

      @entries.select!(&:owner)
      @cancelled = 0
    end

    # When the next deadline is due, or nil.
    def next
      while (entry = @entries.first)
        return entry.at if entry.owner

        @entries.shift
        @cancelled -= 1
      end
    end

    # Tells every owner whose deadline has come.
    def expire(now)
      while (at = self.next) && at <= now
        owner = @entries.shift.owner
        owner.timer = nil
        owner.expired(now)
      end
    end
  end
end
