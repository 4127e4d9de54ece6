//! Opening the files of a store: the one place that decides how (LAYOUT.md 4, "Leases").
//!
//! A process that can read a file can take a lease on it (fcntl(2), F_SETLEASE), if it has the owner's user id
//! or CAP_LEASE. A plain open of the file then waits for the holder, 45 s by default. So no file of a store is
//! opened without O_NONBLOCK, and [`IoError::is_leased`] distinguishes the error of a lease from others.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use crate::error::IoError;
use crate::interrupted::retried;

/// Most attempts to open a file that its reader cannot do without.
const ATTEMPTS: u32 = 8;
/// A holder that heeds the kernel's signal gives its lease back in less.
const PAUSE: Duration = Duration::from_millis(2);

/// Use of an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Reading. Conflicts with another process's write lease.
    Read,
    /// Reading and writing. Conflicts with any lease of another process.
    Write,
    /// As [`Opening::Write`], of a file made with mode 0600 where it is missing.
    Create,
}

/// Opens the file `name` of the directory `dir`, without following a link and without waiting: neither for a lease,
/// which is EWOULDBLOCK, nor for the other end of a pipe.
pub(crate) fn open_file<P: NixPath + ?Sized>(
    dir: impl AsFd,
    name: &P,
    opening: Opening,
) -> Result<File, Errno> {
    let mode = match opening {
        Opening::Read => OFlag::O_RDONLY,
        Opening::Write => OFlag::O_RDWR,
        Opening::Create => OFlag::O_RDWR | OFlag::O_CREAT,
    };
    let flags = mode | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let permissions = Mode::S_IRUSR | Mode::S_IWUSR;
    retried(|| openat(&dir, name, flags, permissions)).map(File::from)
}

/// Opens the file at `path` in the same way.
pub(crate) fn open_path(path: &Path, opening: Opening) -> Result<File, Errno> {
    open_file(AT_FDCWD, path, opening)
}

/// Opens the file at `path` for reading, and tries for some milliseconds while a lease is in the way.
pub(crate) fn open_soon(path: &Path) -> Result<File, Errno> {
    for _ in 1..ATTEMPTS {
        match open_path(path, Opening::Read) {
            Err(Errno::EWOULDBLOCK) => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
    open_path(path, Opening::Read)
}

/// Opens the file at `path`, which lies in a store or belongs to one, for reading and writing without waiting for a
/// lease on it. A missing one is made with mode 0600.
///
/// # Errors
/// [`IoError::is_leased`] while a process holds a lease on the file.
pub fn open_or_create_without_waiting(path: &Path) -> Result<File, IoError> {
    open_path(path, Opening::Create).map_err(|error| IoError::of_open(path, error))
}

/// Reads a whole file, which lies in a store or belongs to one, without waiting for a lease on it.
///
/// # Errors
/// [`IoError::is_leased`] while a process holds a lease on the file.
pub fn read_without_waiting(path: &Path) -> Result<Vec<u8>, IoError> {
    let mut file = open_soon(path).map_err(|error| IoError::of_open(path, error))?;
    let mut bytes = Vec::new();
    let read: io::Result<usize> = file.read_to_end(&mut bytes);
    read.map_err(|error| IoError::new("read", path, error))?;
    Ok(bytes)
}
