#!/usr/bin/env bash
# Runs the conformance driver.
set -eu
cd "$(dirname "$0")/.."
. scripts/env.sh
exec dotnet driver/bin/Release/netcoreapp3.1/Driver.dll
