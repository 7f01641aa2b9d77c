# frozen_string_literal: true

module Ticketing
  # Version of this library.
  VERSION = "0.1.0"
end
