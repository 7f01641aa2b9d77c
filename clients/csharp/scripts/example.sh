#!/usr/bin/env bash
# Builds and runs one source file against the client: scripts/example.sh Program.cs
set -eu
source_file="$(realpath "$1")"
client="$(cd "$(dirname "$0")/.." && pwd)"
. "$client/scripts/env.sh"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp "$source_file" "$work/Program.cs"
sed "s|../src/Ticketing.csproj|$client/src/Ticketing.csproj|" "$client/driver/Driver.csproj" >"$work/Example.csproj"
dotnet build "${BUILD_FLAGS[@]}" "$work" >&2
dotnet "$work/bin/Debug/netcoreapp3.1/Example.dll"
