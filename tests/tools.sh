#!/usr/bin/env bash
# Installs what tests use beside Rust and Python, where that is possible: strace, which injects faults into system calls, and
# Prometheus, whose answers the scaler reads. A test that lacks its tool prints SKIPPED.
set -euo pipefail

missing=()
for tool in strace prometheus; do command -v "$tool" >/dev/null || missing+=("$tool"); done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed: ${missing[*]} (needs root and apt-get)" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
