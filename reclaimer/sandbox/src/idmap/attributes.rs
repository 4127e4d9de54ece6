//! mount_setattr(2).
#![allow(
    unsafe_code,
    reason = "the libraries that are used here have no binding of mount_setattr"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// `struct mount_attr` of the kernel, in its first version.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MOUNT_ATTR_IDMAP` of `linux/mount.h`.
const IDMAP: u64 = 0x0010_0000;

/// Gives a mount the ids of a user namespace.
pub(crate) fn set_map(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let user_namespace = u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?;
    let attributes = MountAttributes {
        set: IDMAP,
        clear: 0,
        propagation: 0,
        user_namespace,
    };
    // SAFETY: The path is a C string, and the attributes are of the length passed. The kernel reads both during
    // the call, writes to neither, and touches no other memory of this process.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::c_long::from(mount.as_raw_fd()),
            c"".as_ptr(),
            libc::c_long::from(libc::AT_EMPTY_PATH),
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
