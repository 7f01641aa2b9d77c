#!/usr/bin/env bash
# Builds and tests the C client: warnings denied, under AddressSanitizer and UndefinedBehaviorSanitizer, then its broker
# under ThreadSanitizer and valgrind.
set -eu
cd "$(dirname "$0")/../clients/c"
packages="cmake ninja-build gcc pkg-config libssl-dev libcmocka-dev valgrind clang-format python3"
dpkg -s $packages >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq $packages; }
clang-format --style=file --dry-run --Werror src/*.[ch] include/ticketing/*.h driver/*.c tests/*.c
build() { cmake -S . -B "$1" -G Ninja -DTICKETING_TESTS=ON -DTICKETING_SANITIZE="$2" -DBUILD_SHARED_LIBS=OFF >/dev/null && ninja -C "$1"; }
build build-asan address,undefined
ctest --test-dir build-asan --output-on-failure
build build-tsan thread
ctest --test-dir build-tsan --output-on-failure -R broker
build build-plain ""
# The test server's own thread never ends, and its stack is "possibly lost".
valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect build-plain/tests/test-broker
