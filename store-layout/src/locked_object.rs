//! Steps M1 to M3 of LAYOUT.md 5.2. Their result is the proof that an object may be mapped.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};

use crate::access::Access;
use crate::crash;
use crate::error::{IoError, MapError};
use crate::folder::Folder;
use crate::lock::{LockKind, try_lock};
use crate::object_file::open_object;
use crate::open_file::Opening;
use crate::store::{ObjectRef, Store};

/// An object's file after M1 to M3: it has the object's name and length, and this process has a read
/// lock on its description.
///
/// [`LockedObject::try_lock`] alone makes one, so a value proves that the file may be mapped: its bytes
/// are sealed (INV-2), and no reclaimer takes it away while the lock lasts (INV-3).
#[derive(Debug)]
pub(crate) struct LockedObject {
    file: File,
    /// Device and inode.
    inode: (u64, u64),
    /// Length in bytes.
    len: usize,
    /// [`Access::Registrable`] only if the file is open for writing.
    access: Access,
}

/// The result of one attempt at M1 to M3.
#[derive(Debug)]
pub(crate) enum LockAttempt {
    /// The object may be mapped.
    Locked(LockedObject),
    /// It is not in the store.
    Absent,
    /// A reclaimer has it locked.
    Busy,
    /// A process holds a lease on it, and may give it back at once.
    Leased,
    /// A reclaimer was faster: the file has no name any more.
    Unlinked,
}

impl LockedObject {
    /// Tries M1 to M3 once, for a mapping with `access`.
    ///
    /// # Errors
    /// [`MapError::Damaged`] when something else has the object's name; [`MapError::Io`] for the rest.
    pub(crate) fn try_lock(
        store: &Store,
        object: &ObjectRef,
        access: Access,
    ) -> Result<LockAttempt, MapError> {
        let name = object.file_name();
        let path = || store.path(Folder::Objects, &name);
        let (file, access) = match open_for(store, &name, access) {
            Ok(opened) => opened,
            Err(Errno::ENOENT) => return Ok(LockAttempt::Absent),
            Err(Errno::ELOOP) => return Err(damaged(&path(), object, "a symbolic link")),
            Err(Errno::EWOULDBLOCK) => return Ok(LockAttempt::Leased),
            Err(error) => return Err(IoError::of_open(path(), error).into()),
        };
        crash::passed("M1");
        let locked =
            try_lock(&file, LockKind::Read).map_err(|error| IoError::new("lock", path(), error))?;
        crash::passed("M2");
        if !locked {
            return Ok(LockAttempt::Busy);
        }
        let stat = fstat(&file).map_err(|error| IoError::new("stat", path(), error))?;
        if stat.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
            return Err(damaged(&path(), object, "something that is not a file"));
        }
        if stat.st_size as u64 != object.len {
            let found = format!("a file of {} bytes", stat.st_size);
            return Err(damaged(&path(), object, &found));
        }
        if stat.st_nlink == 0 {
            return Ok(LockAttempt::Unlinked);
        }
        crash::passed("M3");
        let len = usize::try_from(object.len)
            .map_err(|_| damaged(&path(), object, "more than the address space"))?;
        Ok(LockAttempt::Locked(Self {
            file,
            inode: (stat.st_dev, stat.st_ino),
            len,
            access,
        }))
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Device and inode of the file.
    pub(crate) fn inode(&self) -> (u64, u64) {
        self.inode
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The access that the file was opened for.
    pub(crate) fn access(&self) -> Access {
        self.access
    }
}

/// Opens an object's file for a mapping, for writing too if [`Access::Registrable`] is asked for and
/// this process may. Also returns the access that is left.
fn open_for(store: &Store, name: &str, access: Access) -> Result<(File, Access), Errno> {
    if access != Access::Registrable {
        return Ok((open_object(store, name, Opening::Read)?, access));
    }
    // Refused to processes without CAP_DAC_OVERRIDE, on read-only mounts, and during a lease.
    match open_object(store, name, Opening::Write) {
        Ok(file) => Ok((file, access)),
        Err(_) => Ok((open_object(store, name, Opening::Read)?, Access::ReadOnly)),
    }
}

fn damaged(path: &Path, object: &ObjectRef, found: &str) -> MapError {
    MapError::Damaged {
        path: path.to_owned(),
        expected: object.len,
        found: found.to_owned(),
    }
}
