#!/usr/bin/env bash
# Builds, lints and tests the JavaScript client, and tests the handbook's script.
set -eu
cd "$(dirname "$0")/../clients/javascript"
command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq nodejs npm; }
npm ci --silent
npm run --silent lint
npm test
node --test ../../docs/run-command.test.cjs
