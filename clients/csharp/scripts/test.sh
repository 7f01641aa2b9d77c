#!/usr/bin/env bash
# Builds the library with warnings denied, and runs its tests.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh
dotnet build "${BUILD_FLAGS[@]}" tests
dotnet tests/bin/Debug/netcoreapp3.1/Ticketing.Tests.dll
