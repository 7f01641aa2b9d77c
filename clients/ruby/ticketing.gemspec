# frozen_string_literal: true

require_relative "lib/ticketing/version"

Gem::Specification.new do |spec|
  spec.name = "ticketing"
  spec.version = Ticketing::VERSION
  spec.authors = ["Ticketing maintainers"]
  spec.summary = "Client for the Ticketing lock server"
  spec.description = "Fair (strict FIFO) distributed locks with leases and fencing tokens."
  spec.licenses = %w[MIT Apache-2.0]
  spec.required_ruby_version = ">= 3.0"
  # `rake gem` fetches the licences from the top of the repository; without them no gem is built.
  spec.files = Dir["lib/**/*.rb", "sig/**/*.rbs"] + %w[README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE]
  spec.require_paths = ["lib"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
