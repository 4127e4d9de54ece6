//! Locks of others on the node.

use std::fs::File;
use std::path::Path;

use anyhow::{Result, ensure};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// 50 processes with 5,000 objects each.
pub const LOCKS: u64 = 250_000;
/// Locks on one file.
const LOCKS_PER_FILE: u64 = 500;

/// Locks on files that are none of a store's.
pub struct Locks {
    _files: Vec<File>,
}

impl Locks {
    pub fn take(dir: &Path, count: u64) -> Result<Self> {
        let mut files = Vec::new();
        for number in 0..count.div_ceil(LOCKS_PER_FILE) {
            let path = dir.join(format!("locked-{number}"));
            std::fs::write(&path, b"")?;
            let file = File::open(&path)?;
            std::fs::remove_file(&path)?;
            let left = count - number * LOCKS_PER_FILE;
            for byte in 0..left.min(LOCKS_PER_FILE) {
                let lock = libc::flock {
                    l_type: libc::F_RDLCK as libc::c_short,
                    l_whence: libc::SEEK_SET as libc::c_short,
                    // A byte is left out between two, or the kernel would make one lock of them.
                    l_start: (2 * byte).cast_signed(),
                    l_len: 1,
                    l_pid: 0,
                };
                fcntl(&file, FcntlArg::F_OFD_SETLK(&lock))?;
            }
            files.push(file);
        }
        Ok(Self { _files: files })
    }
}

pub fn list_locks() -> Result<()> {
    let locks = std::fs::read("/proc/locks")?;
    ensure!(!locks.is_empty(), "no locks were found");
    Ok(())
}
