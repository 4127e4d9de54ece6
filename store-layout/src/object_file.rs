//! Opening the files of objects.

use std::fs::File;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use crate::folder::Folder;
use crate::interrupted::retried;
use crate::store::Store;

/// Opens an object's file without following links and without blocking on something else than a file.
pub(crate) fn open_object(store: &Store, name: &str, write: bool) -> Result<File, Errno> {
    let mode = if write {
        OFlag::O_RDWR
    } else {
        OFlag::O_RDONLY
    };
    let flags = mode | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let dir = store.folder(Folder::Objects);
    retried(|| openat(dir, name, flags, Mode::empty())).map(File::from)
}
