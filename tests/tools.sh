#!/usr/bin/env bash
# Installs what tests use beside Rust and Python, where that is possible: strace, which injects faults into system calls;
# Prometheus, whose answers the scaler reads; what makes squashfs, erofs and ext4 images; and QEMU with BusyBox and cpio, for machines
# with other kernels; a registry that models are pulled from. A test that lacks its tool prints SKIPPED.
set -euo pipefail

# Programs, and the packages that have them.
declare -A package=([strace]=strace [prometheus]=prometheus [mksquashfs]=squashfs-tools [mkfs.erofs]=erofs-utils [mkfs.ext4]=e2fsprogs
    [debugfs]=e2fsprogs [losetup]=mount [qemu-system-x86_64]=qemu-system-x86 [busybox]=busybox-static [cpio]=cpio [dpkg-shlibdeps]=dpkg-dev [docker-registry]=docker-registry)
missing=()
for tool in "${!package[@]}"; do
    command -v "$tool" >/dev/null || [ -x "/usr/sbin/$tool" ] || missing+=("${package[$tool]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed: ${missing[*]} (needs root and apt-get)" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
