#!/bin/sh
# Runs src/main.rs of the current directory as somebody's own package that depends on the Rust
# client: the README's example, by `cargo xtask conformance --group readme`.
set -eu
cat > Cargo.toml <<TOML
[package]
name = "readme-example"
edition = "2024"

[dependencies]
ticketing-client = { path = "$CLIENT/crates/client", default-features = false }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

[workspace]

# As in the workspace, so that what is built there is found again.
[profile.dev]
debug = "line-tables-only"

[profile.dev.package."*"]
opt-level = 1
debug = false
TOML
cp "$CLIENT/Cargo.lock" .
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$CLIENT/target}"
exec cargo run --quiet --offline
