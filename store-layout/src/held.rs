//! The question to an object if anybody holds it (LAYOUT.md 4).

use std::os::fd::AsFd;

use nix::errno::Errno;

use crate::error::IoError;
use crate::folder::Folder;
use crate::lock::is_locked;
use crate::open_file::{Opening, open_file};
use crate::store::{ObjectRef, Store};

impl Store {
    /// Returns true if anybody holds the object at this moment: by a mapping, by any other lock on its file, or
    /// by a lease that readers break. False if it is not in the store.
    ///
    /// It takes three system calls, however many locks there are on the node. Holders come and go: only
    /// [`Store::reclaim`] decides whether an object may go.
    ///
    /// # Errors
    /// When the file cannot be opened or asked.
    pub fn is_held(&self, object: &ObjectRef) -> Result<bool, IoError> {
        self.is_held_in(Folder::Objects, object)
    }

    /// As [`Store::is_held`], for an object in quarantine.
    ///
    /// # Errors
    /// When the file cannot be opened or asked.
    pub fn is_quarantined_held(&self, object: &ObjectRef) -> Result<bool, IoError> {
        self.is_held_in(Folder::Quarantine, object)
    }

    fn is_held_in(&self, folder: Folder, object: &ObjectRef) -> Result<bool, IoError> {
        let name = object.file_name();
        is_held(self.folder(folder), &name)
            .map_err(|error| IoError::new("ask who holds", self.path(folder, &name), error))
    }
}

/// Returns true if anybody holds the file `name` of `dir`.
pub(crate) fn is_held(dir: impl AsFd, name: &str) -> Result<bool, Errno> {
    match open_file(dir, name, Opening::Read) {
        // The description is new, so that locks of this process count as well.
        Ok(file) => is_locked(&file),
        Err(Errno::ENOENT) => Ok(false),
        // A write lease, which the kernel takes away some time after this.
        Err(Errno::EWOULDBLOCK) => Ok(true),
        Err(error) => Err(error),
    }
}
