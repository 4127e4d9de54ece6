//! Setting a damaged object aside (LAYOUT.md 5.5).

use nix::errno::Errno;
use nix::fcntl::renameat;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::error::IoError;
use crate::store::{Folder, ObjectRef, Store};

impl Store {
    /// Moves what has the object's name out of reach, so that it is never mapped again and the next
    /// load publishes it anew. `false` when there was nothing.
    ///
    /// Whoever has mapped it already keeps its pages.
    pub fn quarantine(&self, object: &ObjectRef) -> Result<bool, IoError> {
        let name = object.file_name();
        let (from, to) = (
            self.folder(Folder::Objects),
            self.folder(Folder::Quarantine),
        );
        match renameat(from, name.as_str(), to, name.as_str()) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => {
                let path = self.path(Folder::Objects, &name);
                Err(IoError::new("quarantine", path, error))
            }
        }
    }

    /// Deletes an object that was set aside. Whoever still maps it keeps its pages. `false` when it was
    /// not there.
    pub fn remove_quarantined(&self, object: &ObjectRef) -> Result<bool, IoError> {
        let name = object.file_name();
        let folder = self.folder(Folder::Quarantine);
        match unlinkat(folder, name.as_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => {
                let path = self.path(Folder::Quarantine, &name);
                Err(IoError::new("unlink", path, error))
            }
        }
    }
}
