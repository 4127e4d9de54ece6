//! Files that get their name once they are complete: steps P1, P5 and P7 of LAYOUT.md 5.1.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, LinkatFlags, Uid, fchown, geteuid, linkat};

use crate::crash;
use crate::error::IoError;
use crate::interrupted::retried;

/// Opens an unnamed file in `dir` for reading and writing (P1).
pub(crate) fn unnamed(dir: &OwnedFd, path: &Path) -> Result<File, IoError> {
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    retried(|| openat(dir, ".", flags, Mode::S_IRUSR | Mode::S_IWUSR))
        .map(File::from)
        .map_err(|error| IoError::new("stage", path, error))
}

/// Makes `file` read-only for everyone, independent of the umask, and gives it the owner of its
/// directory where root publishes for another user (P5): else that user could not free it.
pub(crate) fn seal(file: &File, dir: &OwnedFd, path: &Path) -> Result<(), IoError> {
    let failed = |error| IoError::new("seal", path, error);
    fchmod(file, Mode::from_bits_truncate(0o444)).map_err(failed)?;
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = fstat(dir).map_err(failed)?;
    if owner.st_uid == 0 {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
    fchown(file, Some(user), Some(group))
        .map_err(|error| IoError::new("give the store's owner", path, error))
}

/// Gives an unnamed file a name, unless the name is taken (P7). `true` when it got it.
pub(crate) fn link(file: &File, dir: &OwnedFd, name: &str, path: &Path) -> Result<bool, IoError> {
    let proc_path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let linked = match linkat(
        AT_FDCWD,
        proc_path.as_str(),
        dir,
        name,
        LinkatFlags::AT_SYMLINK_FOLLOW,
    ) {
        // No /proc in this container: by descriptor, which kernels before 6.10 grant to few.
        Err(Errno::ENOENT) => linkat(file, "", dir, name, AtFlags::AT_EMPTY_PATH),
        other => other,
    };
    match linked {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(error) => Err(IoError::new("link", path, error)),
    }
}

/// Writes `bytes` to a new file `name` in `dir`; `false` when the name is taken.
pub(crate) fn link_new(
    dir: &OwnedFd,
    dir_path: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<bool, IoError> {
    let path = dir_path.join(name);
    let mut file = unnamed(dir, &path)?;
    crash::passed("record P1");
    file.write_all(bytes)
        .map_err(|error| IoError::new("write", &path, error))?;
    crash::passed("record P3");
    seal(&file, dir, &path)?;
    crash::passed("record P5");
    let linked = link(&file, dir, name, &path)?;
    crash::passed("record P7");
    Ok(linked)
}
