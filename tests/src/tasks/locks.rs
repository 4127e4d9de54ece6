//! Locks of a hostile process.

use std::fs::File;

use anyhow::Context;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::process::{READY, say, wait_for_parent};
use crate::task::{LocksKind, LocksTask};

/// Takes the locks, reports that it has them, and keeps them until its stdin is closed.
pub(super) fn run(task: &LocksTask) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for path in &task.files {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        for number in 0..task.each {
            // A byte is left out between two, or the kernel would make one lock of them.
            let (start, len) = match task.each {
                1 => (0, 0),
                _ => (i64::from(number) * 2, 1),
            };
            take(&file, task.kind, start, len)?;
        }
        files.push(file);
    }
    say(READY)?;
    wait_for_parent()
}

fn take(file: &File, kind: LocksKind, start: i64, len: i64) -> anyhow::Result<()> {
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    let request = match kind {
        LocksKind::Ofd => FcntlArg::F_OFD_SETLK(&lock),
        LocksKind::Posix => FcntlArg::F_SETLK(&lock),
    };
    fcntl(file, request).context("take a lock")?;
    Ok(())
}
