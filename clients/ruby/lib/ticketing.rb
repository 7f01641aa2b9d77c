# frozen_string_literal: true

require_relative "ticketing/version"
require_relative "ticketing/errors"
require_relative "ticketing/limits"
require_relative "ticketing/wire"
require_relative "ticketing/session"
require_relative "ticketing/timers"
require_relative "ticketing/settings"
require_relative "ticketing/request"
require_relative "ticketing/acquire_call"
require_relative "ticketing/release_call"
require_relative "ticketing/ready_call"
require_relative "ticketing/link"
require_relative "ticketing/engine"
require_relative "ticketing/connection"
require_relative "ticketing/worker"
require_relative "ticketing/ticket"
require_relative "ticketing/broker"

# Client of the Ticketing lock server: fair distributed locks with leases and fencing tokens.
#
# Times are in seconds. Every error is a {Ticketing::Error}; its subclasses say what is known about
# the lock. After {Ticketing::IndeterminateError} it may be held without this process knowing: do
# not enter the critical section.
module Ticketing
  # Same as {Broker.open}.
  def self.open(addresses, **settings, &block)
    Broker.open(addresses, **settings, &block)
  end
end
