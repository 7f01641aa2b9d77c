#!/usr/bin/env bash
# Builds, lints and tests the Python client.
set -euo pipefail
cd "$(dirname "$0")/../clients/python"

command -v openssl >/dev/null && command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null ||
  { apt-get update -qq && apt-get install -y -qq openssl python3 python3-venv; }
venv="${CI_TOOLS:-$PWD/../../target/ci-tools}/python"
[ -x "$venv/bin/pytest" ] || {
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet build==1.3.0 hatchling==1.27.0 mypy==1.18.2 pytest==8.4.2 ruff==0.14.0
}
export PATH="$venv/bin:$PATH"

ruff check
ruff format --check
mypy
python -m build --no-isolation --outdir "$(mktemp -d)" >/dev/null
pytest
