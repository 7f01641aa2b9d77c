#!/usr/bin/env bash
# Builds and tests the C++ client: warnings denied, under AddressSanitizer and UndefinedBehaviorSanitizer.
set -eu
cd "$(dirname "$0")/../clients/cpp"
packages="cmake ninja-build g++ libssl-dev libgtest-dev clang-format"
dpkg -s $packages >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $packages; }
clang-format --style=file --dry-run --Werror include/ticketing/*.hpp driver/*.cpp tests/*.cpp
cmake -S . -B build-asan -G Ninja -DTICKETING_CPP_TESTS=ON -DTICKETING_SANITIZE=address,undefined >/dev/null
ninja -C build-asan
ctest --test-dir build-asan --output-on-failure
