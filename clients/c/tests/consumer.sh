#!/usr/bin/env bash
# Installs the build of $1 and uses it as strangers do: through find_package and through pkg-config.
set -eu
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/installed" >/dev/null
sanitize="$(sed -n 's/^TICKETING_SANITIZE:STRING=//p' "$1/CMakeCache.txt")"
flags="${sanitize:+-fsanitize=$sanitize}"
mkdir "$work/project"
cat >"$work/project/main.c" <<'C'
#include <stdio.h>
#include <ticketing/ticketing.h>

int main(void) {
    ticketing_options *options = ticketing_options_new();
    puts(ticketing_status_name(ticketing_options_add_address(options, "localhost:5225")));
    ticketing_options_free(options);
    return 0;
}
C
cat >"$work/project/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(ticketing 0.1 REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer ticketing::ticketing)
C
cmake -S "$work/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/installed" -DCMAKE_C_FLAGS="$flags" >/dev/null
cmake --build "$work/build" >/dev/null
[ "$("$work/build/consumer")" = Ok ]
pc="$(find "$work/installed" -name ticketing.pc)"
export PKG_CONFIG_PATH="$(dirname "$pc"):${PKG_CONFIG_PATH:-}"
# shellcheck disable=SC2046
cc $flags "$work/project/main.c" -o "$work/by-pkg-config" $(pkg-config --cflags --libs --static ticketing)
[ "$("$work/by-pkg-config")" = Ok ]
