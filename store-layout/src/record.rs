//! Small immutable files: manifests, identities and derived records (LAYOUT.md 5.4).

use std::io::Read;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::crash;
use crate::error::{IoError, PublishError};
use crate::folder::Folder;
use crate::open_file::{Opening, open_file};
use crate::store::Store;
use crate::unnamed_file::link_new;

impl Store {
    /// Publishes a record; an existing one of the same name stays.
    pub(crate) fn link_record(
        &self,
        folder: Folder,
        name: &str,
        bytes: &[u8],
    ) -> Result<bool, PublishError> {
        self.require_writable()?;
        let dir = self.root().join(folder.name());
        Ok(link_new(self.folder(folder), &dir, name, bytes)?)
    }

    /// Publishes a record in the place of any other of the same name.
    pub(crate) fn replace_record(
        &self,
        folder: Folder,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), PublishError> {
        // Several processes may do this at once. Each unlinks at most what it lost against, and
        // any of the records is true; so a few rounds are plenty, and losing them all is no harm.
        for _ in 0..4 {
            if self.link_record(folder, name, bytes)? {
                return Ok(());
            }
            match self.read_record(folder, name, bytes.len() as u64) {
                Ok(found) if found.as_deref() == Some(bytes) => return Ok(()),
                // Whatever its content, it can be unlinked.
                Err(error) if error.is_leased() => {}
                found => drop(found?),
            }
            self.unlink_record(folder, name)?;
            crash::passed("record unlinked");
        }
        Ok(())
    }

    /// Reads a record of at most `limit` bytes; `None` when there is none. A longer one is cut off
    /// one byte behind the limit, which no decoder accepts.
    ///
    /// # Errors
    /// [`IoError::is_leased`] while a process holds a lease on the record.
    pub(crate) fn read_record(
        &self,
        folder: Folder,
        name: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, IoError> {
        let path = || self.path(folder, name);
        let file = match open_file(self.folder(folder), name, Opening::Read) {
            Ok(file) => file,
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(IoError::of_open(path(), error)),
        };
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| IoError::new("read", path(), error))?;
        Ok(Some(bytes))
    }

    /// Removes a record if it is there.
    pub(crate) fn unlink_record(&self, folder: Folder, name: &str) -> Result<bool, IoError> {
        match unlinkat(self.folder(folder), name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => Err(IoError::new("unlink", self.path(folder, name), error)),
        }
    }

    /// Notes that a record was used now, where this process may (its owner may), in its modification
    /// time: the access time moves whenever someone merely lists the store.
    pub(crate) fn touch_record(&self, folder: Folder, name: &str) {
        use nix::sys::stat::{UtimensatFlags, utimensat};
        use nix::sys::time::TimeSpec;
        // A reader with a read-only mount cannot; the reclaimer then goes by the locks it sees.
        let _not_permitted = utimensat(
            self.folder(folder).as_fd(),
            name,
            &TimeSpec::UTIME_OMIT,
            &TimeSpec::UTIME_NOW,
            UtimensatFlags::NoFollowSymlink,
        );
    }
}
