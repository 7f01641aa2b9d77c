#!/usr/bin/env bash
# Builds and tests the Java client and its Kotlin module, warnings denied.
set -eu
cd "$(dirname "$0")/../clients/java"
command -v mvn >/dev/null && command -v javac >/dev/null || { apt-get update -qq && apt-get install -y -qq maven openjdk-17-jdk-headless; }
mvn --batch-mode --no-transfer-progress verify
