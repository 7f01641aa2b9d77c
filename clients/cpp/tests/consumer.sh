#!/usr/bin/env bash
# Installs the C library and this one, and builds a stranger's project against them: consumer.sh CLIENT_FOLDER
set -eu
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cmake -S "$1" -B "$work/library" >/dev/null
cmake --build "$work/library" >/dev/null
cmake --install "$work/library" --prefix "$work/installed" >/dev/null
mkdir "$work/project"
cat >"$work/project/main.cpp" <<'C'
#include <iostream>
#include <ticketing/ticketing.hpp>

int main() {
    try {
        ticketing::Options("nowhere");
    } catch (const ticketing::Error& error) {
        std::cout << error.name() << '\n';
    }
}
C
cat >"$work/project/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.16)
project(consumer C CXX)
find_package(ticketing-cpp 0.1 REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer ticketing::cpp)
C
cmake -S "$work/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" >/dev/null
cmake --build "$work/build" >/dev/null
[ "$("$work/build/consumer")" = InvalidInput ]

# Who does not keep the ticket holds no lock: the compiler says so.
cat >"$work/dropped.cpp" <<'C'
#include <ticketing/ticketing.hpp>

void work(ticketing::Broker& broker) { broker.acquire("order-1234", {}); }
C
"${CXX:-c++}" -std=c++17 -fsyntax-only -I "$work/installed/include" "$work/dropped.cpp" 2>&1 | grep -q nodiscard
