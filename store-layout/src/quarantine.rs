//! Quarantine of a damaged object: steps Q1 to Q6 of LAYOUT.md 5.5.

use std::fs::File;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::renameat;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::crash;
use crate::error::IoError;
use crate::folder::Folder;
use crate::lock::{LockKind, try_lock};
use crate::object_file::open_object;
use crate::open_file::Opening;
use crate::store::{ObjectRef, Store};

/// Longest wait for another process that quarantines the same object: it needs five system calls.
const WAIT: Duration = Duration::from_secs(5);
/// Most attempts at Q2 because a reclaimer was at work on the object.
const ATTEMPTS: u32 = 50;
/// A reclaimer holds its lock for three system calls.
const PAUSE: Duration = Duration::from_micros(50);

/// The thing that has the object's name.
enum NamedFile {
    /// Nothing, or by now something else.
    Gone,
    /// A file that no reclaimer can unlink while this is open.
    Held(File),
    /// Something that cannot be opened, and so neither locked nor reclaimed.
    Unopenable,
}

impl Store {
    /// Moves the file with the object's name to the quarantine, so that it is never mapped again and the
    /// next load publishes the object anew. False when there was none, or a reclaimer was faster.
    ///
    /// A process that has mapped it already keeps its pages.
    pub fn quarantine(&self, object: &ObjectRef) -> Result<bool, IoError> {
        let name = object.file_name();
        let failed = |error| IoError::new("quarantine", self.path(Folder::Objects, &name), error);
        // Two at once could each take the other's check for their own.
        let alone = self.lock_key(&object.id.0, WAIT, || false)?;
        // Damage is not to be served because someone who can only read is in the way.
        if alone.is_none() && !self.is_obstructed(&object.id.0) {
            return Err(failed(Errno::EBUSY));
        }
        crash::passed("Q1");
        let hold = self.hold(&name).map_err(|error| match error {
            Errno::EWOULDBLOCK => IoError::of_open(self.path(Folder::Objects, &name), error),
            error => failed(error),
        })?;
        let file_held = match hold {
            NamedFile::Gone => return Ok(false),
            NamedFile::Held(file) => Some(file),
            NamedFile::Unopenable => None,
        };
        let (from, to) = (
            self.folder(Folder::Objects),
            self.folder(Folder::Quarantine),
        );
        match renameat(from, name.as_str(), to, name.as_str()) {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        crash::passed("Q5");
        drop(file_held);
        crash::passed("Q6");
        Ok(true)
    }

    /// Q2 to Q4: keeps reclaimers off what has the name.
    fn hold(&self, name: &str) -> Result<NamedFile, Errno> {
        for attempt in 0..ATTEMPTS {
            let file = match open_object(self, name, Opening::Read) {
                Ok(file) => file,
                Err(Errno::ENOENT) => return Ok(NamedFile::Gone),
                Err(Errno::ELOOP | Errno::ENXIO | Errno::EACCES) => {
                    return Ok(NamedFile::Unopenable);
                }
                // No one maps it meanwhile; renamed now, it could be taken for another by a reclaimer.
                Err(Errno::EWOULDBLOCK) if attempt + 1 < ATTEMPTS => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            };
            crash::passed("Q2");
            if !try_lock(&file, LockKind::Read)? {
                if attempt > 0 {
                    std::thread::sleep(PAUSE);
                }
                continue;
            }
            crash::passed("Q3");
            if self.still_named(&file, name)?.is_none() {
                return Ok(NamedFile::Gone);
            }
            crash::passed("Q4");
            return Ok(NamedFile::Held(file));
        }
        Err(Errno::EBUSY)
    }

    /// Deletes a quarantined object. Its holders keep its pages. `false` when it was
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
