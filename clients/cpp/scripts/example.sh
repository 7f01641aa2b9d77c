#!/usr/bin/env bash
# Builds and runs one source file against the client: scripts/example.sh example.cpp
set -eu
source_file="$(realpath "$1")"
client="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cat >"$work/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.16)
project(example C CXX)
add_subdirectory("$client" ticketing)
add_executable(example "$source_file")
target_link_libraries(example ticketing::cpp)
C
cmake -S "$work" -B "$work/build" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/example"
