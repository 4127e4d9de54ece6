//! Mapping an object: steps M1 to M5 of LAYOUT.md 5.2.

use std::fs::File;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};

use crate::access::Access;
use crate::crash;
use crate::error::{IoError, MapError};
use crate::folder::Folder;
use crate::locked_object::{LockAttempt, LockedObject};
use crate::mapping::Mapping;
use crate::object_file::open_object;
use crate::open_file::Opening;
use crate::scan::parse_object_name;
use crate::store::{ObjectRef, Store};

/// Most attempts at M1 because a reclaimer was at work on the object, or a lease was in the way.
const ATTEMPTS: u32 = 50;
/// Attempts that meet a lease, of these: a model may have thousands of objects with leases on them.
const LEASE_ATTEMPTS: u32 = 4;
/// A reclaimer holds its lock for three system calls.
const PAUSE: Duration = Duration::from_micros(50);

impl Store {
    /// Maps an object and so references it. `None` when it is not in the store.
    ///
    /// The expected length is checked, the bytes are not: they are true by construction (INV-1),
    /// and [`Store::verify`] checks them.
    ///
    /// # Errors
    /// [`MapError::Damaged`] when something else has the object's name; [`MapError::is_leased`] when a
    /// process holds a lease on it and does not give it back at once; [`MapError::Io`] for the rest, such
    /// as a limit on descriptors or mappings.
    pub fn map(&self, object: &ObjectRef, access: Access) -> Result<Option<Mapping>, MapError> {
        let mut leases = 0;
        for attempt in 0..ATTEMPTS {
            let locked = match LockedObject::try_lock(self, object, access)? {
                LockAttempt::Locked(locked) => locked,
                LockAttempt::Absent => return Ok(None),
                LockAttempt::Unlinked => continue,
                busy @ (LockAttempt::Busy | LockAttempt::Leased) => {
                    leases += u32::from(matches!(busy, LockAttempt::Leased));
                    if leases == LEASE_ATTEMPTS {
                        break;
                    }
                    if attempt > 0 {
                        std::thread::sleep(PAUSE);
                    }
                    continue;
                }
            };
            let mapping = Mapping::of_locked_object(&locked).map_err(|error| {
                let path = self.path(Folder::Objects, &object.file_name());
                IoError::new("map", path, error)
            })?;
            crash::passed("M4");
            drop(locked);
            crash::passed("M5");
            return Ok(Some(mapping));
        }
        if leases > 0 {
            let path = self.path(Folder::Objects, &object.file_name());
            return Err(IoError::of_open(path, Errno::EWOULDBLOCK).into());
        }
        Ok(None)
    }

    /// The file of an object, open for reading and not referenced: for a caller that has the object mapped, and
    /// hands the file to the kernel. `None` when it is not in the store.
    ///
    /// # Errors
    /// As of [`Store::map`].
    pub fn object_file(&self, object: &ObjectRef) -> Result<Option<File>, MapError> {
        let name = object.file_name();
        match open_object(self, &name, Opening::Read) {
            Ok(file) => Ok(Some(file)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(IoError::of_open(self.path(Folder::Objects, &name), errno).into()),
        }
    }

    /// Returns true if an object of this name and length is in the store at this moment. It may be gone
    /// the next; only [`Store::map`] makes sure of it.
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.object_len(&object.file_name()) == Some(object.len)
    }

    /// Returns true if [`Store::map`] would map the same file for `object`: it was neither quarantined
    /// nor replaced since. For callers that keep mappings, before a new use of them.
    pub fn is_current(&self, object: &ObjectRef, mapping: &Mapping) -> bool {
        let folder = self.folder(Folder::Objects);
        let name = object.file_name();
        let stat = fstatat(folder, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| {
            mapping.file() == (stat.st_dev, stat.st_ino) && stat.st_size as u64 == object.len
        })
    }

    /// The object with this file name, as [`ObjectRef::file_name`] gives it, if it is in the store at
    /// this moment.
    pub fn find(&self, file_name: &str) -> Option<ObjectRef> {
        let (id, crc) = parse_object_name(file_name)?;
        let len = self.object_len(file_name)?;
        Some(ObjectRef { id, crc, len })
    }

    fn object_len(&self, file_name: &str) -> Option<u64> {
        let folder = self.folder(Folder::Objects);
        let stat = fstatat(folder, file_name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let regular = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
        regular.then_some(stat.st_size as u64)
    }
}
