#!/usr/bin/env bash
# What the image of the Dockerfile needs from the server: linked statically, it serves in an empty, read-only root as an
# unprivileged user. Without a container engine, so that every machine can run it.
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-C target-feature=+crt-static" \
  cargo build --locked --quiet --package ticketing-server --target "$host" --target-dir target/static

work=$(mktemp --directory)
trap 'kill -KILL "${server:-}" 2>/dev/null || true; rm -r "$work"' EXIT
chmod 755 "$work"
mkfifo "$work/line"
mkdir "$work/image"
install --mode=755 "target/static/$host/debug/ticketing-server" "$work/image/ticketing-server"
printf 'token of the container test\n' >"$work/image/token"
chmod 644 "$work/image/token"
chmod 555 "$work/image"

chroot --userspec=65532:65532 "$work/image" /ticketing-server --listen 0.0.0.0:0 --token-file /token >"$work/line" &
server=$!
IFS= read -r -t 10 line <"$work/line" || { echo "no start line within 10 s"; exit 1; }
port=$(sed -n 's/^ticketing-server listening on 0\.0\.0\.0:\([0-9]*\) .*auth=on.*/\1/p' <<<"$line")
[ -n "$port" ] || { echo "no address and auth=on in the start line: $line"; exit 1; }
[ "$(stat --format=%u "/proc/$server")" = 65532 ] || { echo "the server runs as another user than 65532"; exit 1; }
cargo run --locked --quiet --package ticketing-client -- \
  lock key --addresses "127.0.0.1:$port" --token-file "$work/image/token" -- true
kill -TERM "$server"
wait "$server"
