#!/usr/bin/env bash
# Lints and tests the Ruby client.
set -euo pipefail
cd "$(dirname "$0")/../clients/ruby"

command -v openssl >/dev/null && command -v rake >/dev/null && command -v rubocop >/dev/null &&
  ruby -e 'gem "minitest"' 2>/dev/null ||
  { apt-get update -qq && apt-get install -y -qq openssl rake rubocop ruby ruby-minitest; }

rake gem
rake rubocop
# The signature checker is a bundled gem, with a native part that some packages leave out.
if ruby -e 'require "rbs"' 2>/dev/null; then rake rbs; fi
rake test
