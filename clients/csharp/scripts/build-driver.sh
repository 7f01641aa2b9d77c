#!/usr/bin/env bash
# Builds the conformance driver, optimised: speed is measured with it too.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh
dotnet build "${BUILD_FLAGS[@]}" -c Release driver >&2
