//! Stores on a disk: records and names, written through. Each file takes a call, which needs no right over the file system.

use nix::errno::Errno;
use nix::unistd::fsync;

use crate::digest::{DerivedId, IdentityId, ManifestId};
use crate::error::IoError;
use crate::folder::Folder;
use crate::open_file::{Opening, open_file};
use crate::store::Store;

impl Store {
    /// Returns when the disk has a manifest. One that has gone meanwhile is no error.
    pub fn sync_manifest(&self, id: ManifestId) -> Result<(), IoError> {
        self.sync_record(Folder::Manifests, &id.to_string())
    }

    /// Returns when the disk has a derived record. One that has gone meanwhile is no error.
    pub fn sync_derived(&self, id: DerivedId) -> Result<(), IoError> {
        self.sync_record(Folder::Derived, &id.to_string())
    }

    /// Returns when the disk has an identity. One that has gone meanwhile is no error.
    pub fn sync_identity(&self, id: IdentityId) -> Result<(), IoError> {
        self.sync_record(Folder::Identities, &id.to_string())
    }

    /// Returns when the disk has the names of all objects and records.
    pub fn sync_names(&self) -> Result<(), IoError> {
        for folder in Folder::ALL {
            let path = self.root().join(folder.name());
            fsync(self.folder(folder)).map_err(|error| IoError::new("sync", path, error))?;
        }
        Ok(())
    }

    fn sync_record(&self, folder: Folder, name: &str) -> Result<(), IoError> {
        let failed = |error| IoError::new("sync", self.path(folder, name), error);
        match open_file(self.folder(folder), name, Opening::Read) {
            Err(Errno::ENOENT) => Ok(()),
            file => fsync(file.map_err(failed)?).map_err(failed),
        }
    }
}
