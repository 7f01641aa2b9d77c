#!/usr/bin/env bash
# Builds and runs one source file against the client: scripts/example.sh example.c
set -eu
source_file="$(realpath "$1")"
client="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cmake -S "$client" -B "$work/build" >/dev/null
cmake --build "$work/build" >/dev/null
cmake --install "$work/build" --prefix "$work/installed" >/dev/null
export PKG_CONFIG_PATH
PKG_CONFIG_PATH="$(dirname "$(find "$work/installed" -name ticketing.pc)")"
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$source_file" -o "$work/example" $(pkg-config --cflags --libs --static ticketing)
"$work/example"
