#!/usr/bin/env bash
# Builds and tests the C# client, warnings denied. Its .NET is installed by scripts/toolchain.sh.
set -eu
cd "$(dirname "$0")/../clients/csharp"
missing=""
for tool in npm unzip python3; do command -v "$tool" >/dev/null || missing=1; done
[ -z "$missing" ] || { apt-get update -qq && apt-get install -y -qq npm unzip python3 python3-pip; }
scripts/test.sh
