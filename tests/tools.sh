#!/usr/bin/env bash
# Installs what tests use beside Rust and Python, where that is possible: strace, which injects faults into system calls,
# Prometheus, whose answers the scaler reads, and QEMU with BusyBox and cpio, for machines with other kernels. A test that lacks its tool
# prints SKIPPED.
set -euo pipefail

missing=()
# Tool and package.
while read -r tool package; do
    command -v "$tool" >/dev/null || missing+=("$package")
done <<'TOOLS'
strace strace
prometheus prometheus
qemu-system-x86_64 qemu-system-x86
busybox busybox-static
cpio cpio
TOOLS
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed: ${missing[*]} (needs root and apt-get)" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
