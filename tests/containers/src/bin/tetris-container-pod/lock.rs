//! Every lock that can be had with a descriptor for reading, on every file of the store.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Result, ensure};
use nix::fcntl::{FcntlArg, Flock, FlockArg, fcntl};
use nix::libc;
use tetris_container_tests::report::Line;

use super::tally::Tally;

/// A lock on a whole file.
pub fn request(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Objects are left out: a lock on one of them is a reference, which anybody may have. All else, and `flock` on all.
pub fn run(root: &Path) -> Result<()> {
    let mut tally = Tally::new("lock");
    let mut locked = Vec::new();
    for path in super::files::all(root)? {
        let Ok(file) = File::open(&path) else {
            tally.count("not opened");
            continue;
        };
        if !path.starts_with(root.join("objects-v1")) {
            let read = fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&request(libc::F_RDLCK)));
            tally.count(if read.is_ok() {
                "read lock"
            } else {
                "no read lock"
            });
            locked.push(file.try_clone()?);
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                tally.count("flock");
                // It lasts as long as the description, which is never closed.
                std::mem::forget(lock);
            }
            Err(_) => tally.count("no flock"),
        }
    }
    ensure!(!locked.is_empty(), "there is nothing to lock");
    tally.say()?;
    Line::Done.say()?;
    loop {
        std::thread::park();
    }
}
