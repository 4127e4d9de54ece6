//! Mapping an object: steps M1 to M5 of LAYOUT.md 5.2.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};

use crate::crash;
use crate::error::{IoError, MapError};
use crate::interrupted::retried;
use crate::lock::{LockKind, try_lock};
use crate::mapping::{Access, Mapping};
use crate::scan::parse_object_name;
use crate::store::{Folder, ObjectRef, Store};

/// How often M1 is tried again because a reclaimer was at work on the object.
const ATTEMPTS: u32 = 50;
/// A reclaimer holds its lock for three system calls.
const PAUSE: Duration = Duration::from_micros(50);

/// Opens an object's file without following links and without blocking on what is not a file.
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

/// Opens an object's file for a mapping, for writing too where [`Access::Registrable`] is asked for and this process may, and says
/// which access that leaves.
fn open_for(store: &Store, name: &str, access: Access) -> Result<(File, Access), Errno> {
    if access != Access::Registrable {
        return Ok((open_object(store, name, false)?, access));
    }
    // Refused to whoever has not CAP_DAC_OVERRIDE, on read-only mounts, and while somebody has a lease on it.
    match open_object(store, name, true) {
        Ok(file) => Ok((file, access)),
        Err(_) => Ok((open_object(store, name, false)?, Access::ReadOnly)),
    }
}

impl Store {
    /// Maps an object and so references it. `None` when it is not in the store.
    ///
    /// The expected length is checked, the bytes are not: they are true by construction (INV-1),
    /// and [`Store::verify`] checks them.
    ///
    /// # Errors
    /// [`MapError::Damaged`] when something else has the object's name; [`MapError::Io`] for the
    /// rest, such as a limit on descriptors or mappings.
    pub fn map(&self, object: &ObjectRef, access: Access) -> Result<Option<Mapping>, MapError> {
        let name = object.file_name();
        let path = || self.path(Folder::Objects, &name);
        for attempt in 0..ATTEMPTS {
            let (file, access) = match open_for(self, &name, access) {
                Ok(opened) => opened,
                Err(Errno::ENOENT) => return Ok(None),
                Err(Errno::ELOOP) => return Err(damaged(&path(), object, "a symbolic link")),
                Err(error) => return Err(IoError::new("open", path(), error).into()),
            };
            crash::passed("M1");
            let locked = try_lock(&file, LockKind::Read)
                .map_err(|error| IoError::new("lock", path(), error))?;
            crash::passed("M2");
            if !locked {
                if attempt > 0 {
                    std::thread::sleep(PAUSE);
                }
                continue;
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
                continue;
            }
            crash::passed("M3");
            let len = usize::try_from(object.len)
                .map_err(|_| damaged(&path(), object, "more than the address space"))?;
            let inode = (stat.st_dev, stat.st_ino);
            let mapping = Mapping::of_locked_object(&file, inode, len, access)
                .map_err(|error| IoError::new("map", path(), error))?;
            crash::passed("M4");
            drop(file);
            crash::passed("M5");
            return Ok(Some(mapping));
        }
        Ok(None)
    }

    /// Whether an object of this name and length is in the store at this moment. It may be gone the
    /// next; only [`Store::map`] makes sure of it.
    pub fn contains(&self, object: &ObjectRef) -> bool {
        self.object_len(&object.file_name()) == Some(object.len)
    }

    /// Whether `mapping` still is what [`Store::map`] would map for `object`: the same file, which was neither set aside as
    /// damaged nor replaced since. For whoever keeps mappings, before they are used for something new.
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

fn damaged(path: &Path, object: &ObjectRef, found: &str) -> MapError {
    MapError::Damaged {
        path: path.to_owned(),
        expected: object.len,
        found: found.to_owned(),
    }
}
