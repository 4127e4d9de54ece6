# Functions for tests that boot Debian's kernels by QEMU: tests/vm and tests/systemd source this. Kernels lie in $work.

# Writes the name of Debian's newest kernel package of version $1.
package_of() {
    local pattern='^linux-image-'"${1//./\\.}"'\.[0-9]+(-[0-9]+|\+deb[0-9]+(\+[0-9]+)?)-cloud-amd64$'
    apt-cache search --names-only "$pattern" | cut -d' ' -f1 | sort -V | tail -n 1
}

# Unpacks the kernel of version $1, once, and writes where it lies: the image `kernel`, and below `lib` the modules that it needs for
# a disk of QEMU. It has ext4 built in.
kernel_of() {
    local package dir
    package=$(package_of "$1")
    [ -n "$package" ] || return 1
    dir="$work/$package"
    if [ ! -e "$dir/kernel" ] || [ ! -d "$dir/lib" ]; then
        rm -rf "$dir"
        mkdir -p "$dir/deb"
        # The newest may be known to apt-cache and gone from the mirror.
        (cd "$dir/deb" && apt-get download -qq -o APT::Sandbox::User=root "$package" >&2) || return 1
        dpkg-deb --fsys-tarfile "$dir"/deb/*.deb | tar -x -C "$dir" --wildcards './boot/vmlinuz-*' './lib/modules/*/modules.*' \
            './lib/modules/*/kernel/drivers/virtio/*' './lib/modules/*/kernel/drivers/block/virtio_blk.ko*'
        rm -r "$dir/deb"
        mv "$dir"/boot/vmlinuz-* "$dir/kernel"
    fi
    printf '%s\n' "$dir/kernel"
}
