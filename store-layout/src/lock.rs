//! Open-file-description locks (LAYOUT.md 4).
//!
//! OFD locks rather than `flock` or POSIX locks: a write lock needs a writable descriptor, so a
//! process with read access cannot shut readers out; and a lock is not lost when some other
//! descriptor of the same file is closed in the process (fcntl(2), "Open file description locks").
//!
//! Creation locks are write locks. A process that may read their file can put a read lock in their way,
//! without any reason to: no one waits for it.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::digest::Digest;

/// Kind of a lock, by the locks that it excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// Excludes writers.
    Read,
    /// Excludes everyone.
    Write,
    /// Gives the lock back.
    Unlock,
}

fn request(kind: LockKind, start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: match kind {
            LockKind::Read => libc::F_RDLCK as libc::c_short,
            LockKind::Write => libc::F_WRLCK as libc::c_short,
            LockKind::Unlock => libc::F_UNLCK as libc::c_short,
        },
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        // 0 means "to the end, however far the file grows".
        l_len: len,
        l_pid: 0,
    }
}

fn try_lock_range(file: impl AsFd, kind: LockKind, start: i64, len: i64) -> Result<bool, Errno> {
    loop {
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&request(kind, start, len))) {
            Ok(_) => return Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Returns true if a read lock keeps this byte from being locked for writing; then no process has
/// it locked for writing.
fn is_read_locked(file: impl AsFd, offset: i64) -> bool {
    let mut lock = request(LockKind::Write, offset, 1);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).is_ok()
        && lock.l_type == libc::F_RDLCK as libc::c_short
}

/// Returns true if someone else has a lock on any byte of the file: that of another description, or a
/// POSIX lock of any process. The file need not be open for writing.
pub(crate) fn is_locked(file: impl AsFd) -> Result<bool, Errno> {
    let mut lock = request(LockKind::Write, 0, 0);
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Locks the whole file without waiting; `false` means that someone else holds a lock.
///
/// The lock lasts until the last reference to the open file description is gone: descriptors,
/// and mappings made from it.
pub(crate) fn try_lock(file: impl AsFd, kind: LockKind) -> Result<bool, Errno> {
    try_lock_range(file, kind, 0, 0)
}

/// Advisory lock on the production of one thing, so that others wait instead of doing it as well.
///
/// Released when dropped, or by the kernel when the process dies.
#[derive(Debug)]
#[must_use = "the lock is released when this value is dropped"]
pub struct CreationLock {
    file: File,
}

impl CreationLock {
    /// Takes the lock for `key`, waiting until `deadline` at most, and asking `give_up` between
    /// attempts. `None` when it was not to be had: the caller works on without it.
    ///
    /// `file` must be its own description, for the lock belongs to it.
    pub(crate) fn acquire(
        file: File,
        key: &Digest,
        deadline: Instant,
        mut give_up: impl FnMut() -> bool,
    ) -> Option<Self> {
        let offset = offset(key);
        // Others may be about to finish, or need minutes: poll soon, then less often.
        let mut pause = Duration::from_micros(200);
        loop {
            match try_lock_range(&file, LockKind::Write, offset, 1) {
                Ok(true) => return Some(Self { file }),
                Ok(false) => {}
                Err(_) => return None,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || is_read_locked(&file, offset) || give_up() {
                return None;
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// Offsets of locks are signed: 63 bits of the key.
fn offset(key: &Digest) -> i64 {
    (key.prefix_u64() >> 1).cast_signed()
}

/// Returns true if a process that can only read keeps the lock for `key` from being taken.
pub(crate) fn is_obstructed(file: &File, key: &Digest) -> bool {
    is_read_locked(file, offset(key))
}

impl Drop for CreationLock {
    /// Closing is not enough: a child that was forked meanwhile has the descriptor as well, and with it the lock.
    fn drop(&mut self) {
        let _released = try_lock(&self.file, LockKind::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::path::Path;

    fn open(path: &Path) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap()
    }

    #[test]
    fn readers_share_and_exclude_writers_until_their_description_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (a, b, c) = (open(&path), open(&path), open(&path));
        assert_eq!(try_lock(&a, LockKind::Read), Ok(true));
        assert_eq!(try_lock(&b, LockKind::Read), Ok(true));
        assert_eq!(try_lock(&c, LockKind::Write), Ok(false));
        drop(a);
        assert_eq!(try_lock(&c, LockKind::Write), Ok(false));
        drop(b);
        assert_eq!(try_lock(&c, LockKind::Write), Ok(true));
    }

    #[test]
    fn a_reader_of_a_read_only_descriptor_cannot_lock_out_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        drop(open(&path));
        let read_only = File::open(&path).unwrap();
        assert_eq!(try_lock(&read_only, LockKind::Write), Err(Errno::EBADF));
    }

    #[test]
    fn creation_locks_exclude_per_key_and_their_wait_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks");
        let (one, two) = (Digest([1; 32]), Digest([2; 32]));
        let now = Instant::now();
        let lock = CreationLock::acquire(open(&path), &one, now, || false);
        assert!(lock.is_some());
        assert!(CreationLock::acquire(open(&path), &one, now, || false).is_none());
        assert!(CreationLock::acquire(open(&path), &two, now, || false).is_some());
        drop(lock);
        assert!(CreationLock::acquire(open(&path), &one, now, || false).is_some());
    }

    #[test]
    fn a_read_lock_in_the_way_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks");
        let key = Digest([1; 32]);
        let (ours, hostile) = (open(&path), File::open(&path).unwrap());
        assert!(!is_obstructed(&ours, &key));
        assert_eq!(try_lock(&hostile, LockKind::Read), Ok(true));
        let never = Instant::now() + Duration::from_hours(1);
        assert!(CreationLock::acquire(open(&path), &key, never, || false).is_none());
        assert!(is_obstructed(&ours, &key));
        drop(hostile);
        let lock = CreationLock::acquire(open(&path), &key, never, || false);
        assert!(lock.is_some() && !is_obstructed(&ours, &key));
    }

    #[test]
    fn a_creation_lock_ends_even_if_its_descriptor_lives_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (key, now) = (Digest::of(b"one"), Instant::now());
        let file = open(&path);
        // As a forked child has it.
        let inherited = file.try_clone().unwrap();
        drop(CreationLock::acquire(file, &key, now, || false));
        assert!(CreationLock::acquire(open(&path), &key, now, || false).is_some());
        drop(inherited);
    }
}
