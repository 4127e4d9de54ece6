//! Reclaiming an object: steps R1 to R5 of LAYOUT.md 5.3.

use std::fs::File;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{Mode, fchmod, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::crash;
use crate::digest::{DerivedId, ManifestId};
use crate::error::{IoError, StoreError};
use crate::folder::Folder;
use crate::lock::{LockKind, try_lock};
use crate::object_file::open_object;
use crate::open_file::Opening;
use crate::store::{ObjectRef, Store};

/// Most attempts at R1. A process that interferes is between two system calls.
const ATTEMPTS: u32 = 1_000;

/// The result of an attempt to reclaim an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaimed {
    /// It is gone.
    Freed {
        /// Its length in bytes.
        bytes: u64,
    },
    /// Someone maps it, is about to, or holds a lease on it: it stays. A normal outcome.
    Referenced,
    /// It was not there, or someone else reclaimed it.
    Absent,
}

impl Store {
    /// Removes an object unless it is referenced.
    pub fn reclaim(&self, object: &ObjectRef) -> Result<Reclaimed, StoreError> {
        let name = object.file_name();
        let path = || self.path(Folder::Objects, &name);
        let file = match self.open_for_locking(&name) {
            Ok(file) => file,
            Err(Errno::ENOENT) => return Ok(Reclaimed::Absent),
            // A lease (fcntl(2)), which the kernel takes away some time after this.
            Err(Errno::EWOULDBLOCK) => return Ok(Reclaimed::Referenced),
            Err(error) => return Err(IoError::new("open for reclaim", path(), error).into()),
        };
        crash::passed("R1");
        let locked = try_lock(&file, LockKind::Write)
            .map_err(|error| IoError::new("lock", path(), error))?;
        if !locked {
            return Ok(Reclaimed::Referenced);
        }
        crash::passed("R2");
        let Some(bytes) = self
            .still_named(&file, &name)
            .map_err(|error| IoError::new("stat", path(), error))?
        else {
            return Ok(Reclaimed::Absent);
        };
        crash::passed("R3");
        unlinkat(
            self.folder(Folder::Objects),
            name.as_str(),
            UnlinkatFlags::NoRemoveDir,
        )
        .map_err(|error| IoError::new("unlink", path(), error))?;
        crash::passed("R4");
        drop(file);
        crash::passed("R5");
        Ok(Reclaimed::Freed { bytes })
    }

    /// R1: a write lock needs a writable descriptor, and objects are read-only even to their owner.
    fn open_for_locking(&self, name: &str) -> Result<File, Errno> {
        // Another reclaimer of the same owner may set the mode back in between.
        for _ in 0..ATTEMPTS {
            match open_object(self, name, Opening::Write) {
                Ok(file) => {
                    // Ours, or left by one that was killed here.
                    if fstat(&file)?.st_mode & 0o222 != 0 {
                        fchmod(&file, Mode::from_bits_truncate(0o444))?;
                    }
                    return Ok(file);
                }
                Err(Errno::EACCES) => {}
                Err(error) => return Err(error),
            }
            let read_only = open_object(self, name, Opening::Read)?;
            fchmod(&read_only, Mode::from_bits_truncate(0o644))?;
        }
        Err(Errno::EACCES)
    }

    /// R3, Q4: the length of `file` if `name` still leads to it.
    pub(crate) fn still_named(&self, file: &File, name: &str) -> Result<Option<u64>, Errno> {
        let stat = fstat(file)?;
        let dir = self.folder(Folder::Objects).as_fd();
        match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(named) if named.st_ino == stat.st_ino && named.st_dev == stat.st_dev => {
                Ok(Some(stat.st_size as u64))
            }
            Ok(_) | Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a manifest, and the hint at its last path. Its objects are not affected.
    pub fn remove_manifest(&self, id: ManifestId) -> Result<bool, StoreError> {
        self.remove_last_path(id);
        Ok(self.unlink_record(Folder::Manifests, &id.to_string())?)
    }

    /// Removes a derived record. Its object is not affected.
    pub fn remove_derived(&self, id: DerivedId) -> Result<bool, StoreError> {
        Ok(self.unlink_record(Folder::Derived, &id.to_string())?)
    }

    /// Removes an identity record by name, as [`Store::identities`] lists it.
    pub fn remove_identity(&self, id: crate::digest::IdentityId) -> Result<bool, StoreError> {
        Ok(self.unlink_record(Folder::Identities, &id.to_string())?)
    }
}
