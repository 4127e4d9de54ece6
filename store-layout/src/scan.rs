//! Listing what is in a store.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::dir::{Dir, Entry, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, major, minor};

use crate::digest::{DerivedId, Digest, IdentityId, ManifestId, ObjectId};
use crate::error::DecodeError;
use crate::error::{IoError, StoreError};
use crate::folder::{Folder, PATHS};
use crate::identity::{IdentityKey, decode_record};
use crate::interrupted::retried;
use crate::store::{ObjectRef, Store, is_part_of_store, names_in};
use crate::usage::RecordUse;

/// An object in the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The object.
    pub object: ObjectRef,
    /// Memory that it occupies, in bytes: its pages.
    pub allocated: u64,
    /// Major and minor number of the device it lies on, and
    pub device: (u64, u64),
    /// its inode number: by these locks name it.
    pub inode: u64,
    /// Time of its publication.
    pub published: SystemTime,
    /// Time of the last link, rename or change of mode: in the quarantine, the time of its
    /// quarantine.
    pub changed: SystemTime,
}

/// Something in the objects' directory that is not an object: reported, never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignEntry {
    /// Its file name.
    pub name: OsString,
    /// The reason that it is no object.
    pub reason: String,
}

/// All objects of a store at one moment.
#[derive(Debug, Default)]
pub struct ObjectListing {
    /// The objects, in no order.
    pub objects: Vec<ObjectEntry>,
    /// Other entries of the folder.
    pub foreign: Vec<ForeignEntry>,
}

/// A manifest or derived record in the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordEntry<Id> {
    /// The record's name.
    pub id: Id,
    /// Time of the last load that used it, if that load was allowed to note it.
    pub last_used: SystemTime,
    /// Length in bytes.
    pub len: u64,
    /// Memory that it occupies, in bytes: its pages.
    pub allocated: u64,
}

impl Store {
    /// Lists all objects.
    pub fn objects(&self) -> Result<ObjectListing, StoreError> {
        self.object_folder(Folder::Objects)
    }

    /// Lists the objects in quarantine, which failed verification.
    pub fn quarantined(&self) -> Result<ObjectListing, StoreError> {
        self.object_folder(Folder::Quarantine)
    }

    /// Lists what lies in the store and is none of it, apart from the objects' folder, whose listing has its own:
    /// names that no version gives, and things that are not what their name promises. By path.
    pub fn foreign(&self) -> Result<Vec<(PathBuf, String)>, StoreError> {
        let mut foreign = Vec::new();
        for folder in [Folder::Manifests, Folder::Identities, Folder::Derived] {
            self.each_file(folder, |name, stat| {
                let reason = if name
                    .to_str()
                    .is_none_or(|name| name.parse::<Digest>().is_err())
                {
                    "its name is not that of a record"
                } else if file_type(stat) != SFlag::S_IFREG {
                    "it is not a regular file"
                } else {
                    return;
                };
                foreign.push((
                    self.root().join(folder.name()).join(name),
                    reason.to_owned(),
                ));
            })?;
        }
        let hints = self.hint_names().into_iter();
        let not_of_manifests = hints.filter(|name| {
            let name = name.to_str();
            name.is_none_or(|name| name.parse::<Digest>().is_err())
        });
        foreign.extend(not_of_manifests.map(|name| {
            let reason = "its name is not that of a manifest";
            (self.root().join(PATHS).join(name), reason.to_owned())
        }));
        let quarantine = self.root().join(Folder::Quarantine.name());
        let set_aside = self.quarantined()?.foreign.into_iter();
        foreign.extend(set_aside.map(|entry| (quarantine.join(entry.name), entry.reason)));
        for name in names_in(self.root())? {
            if !is_part_of_store(&name) {
                let reason = "no part of a store has this name".to_owned();
                foreign.push((self.root().join(name), reason));
            }
        }
        Ok(foreign)
    }

    fn object_folder(&self, folder: Folder) -> Result<ObjectListing, StoreError> {
        let mut listing = ObjectListing::default();
        let owner = self.owner()?;
        self.each_file(folder, |name, stat| {
            let entry = object_entry(owner, &name, stat);
            listing.add(name, entry);
        })?;
        Ok(listing)
    }

    /// Lists all manifests. Files with other names are left out.
    pub fn manifests(&self) -> Result<Vec<RecordEntry<ManifestId>>, StoreError> {
        self.records(Folder::Manifests)
    }

    /// Lists all derived records. Files with other names are left out.
    pub fn derived_records(&self) -> Result<Vec<RecordEntry<DerivedId>>, StoreError> {
        self.records(Folder::Derived)
    }

    /// Lists all identities with the manifests they are bound to; damaged ones as errors. Those on which
    /// processes hold leases cannot be read now, and are left out.
    pub fn identities(&self) -> Result<Vec<(IdentityId, BoundIdentity)>, StoreError> {
        let records = self.identity_records()?;
        let mut identities = Vec::with_capacity(records.len());
        for record in records {
            match self.bound_identity(&record) {
                Ok(bound) => identities.extend(bound.map(|bound| (record.id, bound))),
                Err(error) if error.is_leased() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(identities)
    }

    /// Lists all identity records without reading them. Files with other names are left out.
    pub fn identity_records(&self) -> Result<Vec<RecordEntry<IdentityId>>, StoreError> {
        self.records(Folder::Identities)
    }

    /// Time of the last addition or removal of an identity record.
    pub fn identities_changed(&self) -> Result<SystemTime, IoError> {
        let folder = fstat(self.folder(Folder::Identities)).map_err(|error| {
            let path = self.root().join(Folder::Identities.name());
            IoError::new("stat", path, error)
        })?;
        Ok(time(folder.st_mtime, folder.st_mtime_nsec))
    }

    /// The room that all records together take.
    pub fn record_use(&self) -> Result<RecordUse, StoreError> {
        let mut used = RecordUse::default();
        for folder in [Folder::Manifests, Folder::Derived, Folder::Identities] {
            self.each_file(folder, |_, stat| {
                used.bytes = used.bytes.saturating_add(allocated(stat));
                used.files += 1;
            })?;
        }
        Ok(used)
    }

    /// The content of an identity record; `None` when it has vanished.
    pub(crate) fn bound_identity(
        &self,
        record: &RecordEntry<IdentityId>,
    ) -> Result<Option<BoundIdentity>, IoError> {
        let name = record.id.to_string();
        let bytes = self.read_record(Folder::Identities, &name, record.len)?;
        Ok(bytes.map(|bytes| decode_record(&bytes)))
    }

    /// Length of a manifest in bytes, if it is there.
    pub(crate) fn manifest_len(&self, id: ManifestId) -> Option<u64> {
        let folder = self.folder(Folder::Manifests);
        let stat = fstatat(
            folder,
            id.to_string().as_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .ok()?;
        Some(stat.st_size as u64)
    }

    fn records<Id: FromStr>(&self, folder: Folder) -> Result<Vec<RecordEntry<Id>>, StoreError> {
        let mut records = Vec::new();
        self.each_file(folder, |name, stat| {
            let id = name.to_str().and_then(|name| name.parse().ok());
            if let (Some(id), SFlag::S_IFREG) = (id, file_type(stat)) {
                records.push(RecordEntry {
                    id,
                    last_used: time(stat.st_mtime, stat.st_mtime_nsec),
                    len: stat.st_size as u64,
                    allocated: allocated(stat),
                });
            }
        })?;
        Ok(records)
    }

    /// Calls `visit` for each entry of a folder with its `stat`; entries that vanish meanwhile are
    /// left out.
    fn each_file(
        &self,
        folder: Folder,
        mut visit: impl FnMut(OsString, &FileStat),
    ) -> Result<(), StoreError> {
        self.each_entry(folder, |entry| {
            if let Some(stat) = entry.stat()? {
                visit(entry.name(), &stat);
            }
            Ok(())
        })
    }

    /// Calls `visit` for each entry of a folder.
    pub(crate) fn each_entry(
        &self,
        folder: Folder,
        mut visit: impl FnMut(&Listed<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let path = || self.root().join(folder.name());
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir =
            retried(|| Dir::openat(self.folder(folder).as_fd(), ".", flags, Mode::empty()))
                .map_err(|error| IoError::new("list", path(), error))?;
        for entry in dir.iter() {
            let entry = entry.map_err(|error| IoError::new("list", path(), error))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                visit(&Listed {
                    store: self,
                    folder,
                    entry: &entry,
                })?;
            }
        }
        Ok(())
    }
}

/// An entry of a folder that is being listed.
pub(crate) struct Listed<'a> {
    store: &'a Store,
    folder: Folder,
    entry: &'a Entry,
}

impl Listed<'_> {
    pub(crate) fn name(&self) -> OsString {
        OsString::from_vec(self.entry.file_name().to_bytes().to_vec())
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.entry.file_name().to_str().ok()
    }

    pub(crate) fn inode(&self) -> u64 {
        self.entry.ino()
    }

    /// The type of the entry, where the file system has it in the list.
    pub(crate) fn kind(&self) -> Option<Type> {
        self.entry.file_type()
    }

    /// `None` when it has vanished.
    pub(crate) fn stat(&self) -> Result<Option<FileStat>, StoreError> {
        let at = AtFlags::AT_SYMLINK_NOFOLLOW;
        match fstatat(
            self.store.folder(self.folder).as_fd(),
            self.entry.file_name(),
            at,
        ) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => {
                let path = self.store.root().join(self.folder.name()).join(self.name());
                Err(IoError::new("stat", path, error).into())
            }
        }
    }
}

impl ObjectListing {
    pub(crate) fn add(&mut self, name: OsString, entry: Result<ObjectEntry, NoObject>) {
        match entry {
            Ok(entry) => self.objects.push(entry),
            Err(error) => self.foreign.push(ForeignEntry {
                name,
                reason: error.to_string(),
            }),
        }
    }
}

/// The content of an identity record, if it is undamaged.
pub type BoundIdentity = Result<(IdentityKey, ManifestId), DecodeError>;

/// Reads an object's file name.
pub(crate) fn parse_object_name(name: &str) -> Option<(ObjectId, u32)> {
    let (id, crc) = name.split_once('-')?;
    let id = ObjectId(id.parse::<Digest>().ok()?);
    let digits = crc.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (crc.len() == 8 && digits).then_some(())?;
    Some((id, u32::from_str_radix(crc, 16).ok()?))
}

/// The reason that an entry of the objects' folder is no object.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum NoObject {
    #[error("its name is not that of an object")]
    Name,
    #[error("it is not a regular file")]
    Kind,
    #[error("expected user {owner} or root to own it, found {found}")]
    Owner { owner: u32, found: u32 },
    #[error("expected mode 0444, found {found:04o}: others can write to it")]
    Mode { found: u32 },
}

/// The entry of an object: a regular file with an object's name, made by the store's owner or root,
/// that no one else can write to.
pub(crate) fn object_entry(
    owner: u32,
    name: &OsString,
    stat: &FileStat,
) -> Result<ObjectEntry, NoObject> {
    let (id, crc) = name
        .to_str()
        .and_then(parse_object_name)
        .ok_or(NoObject::Name)?;
    if file_type(stat) != SFlag::S_IFREG {
        return Err(NoObject::Kind);
    }
    if stat.st_uid != 0 && stat.st_uid != owner {
        let found = stat.st_uid;
        return Err(NoObject::Owner { owner, found });
    }
    if stat.st_mode & 0o022 != 0 {
        let found = stat.st_mode & 0o7777;
        return Err(NoObject::Mode { found });
    }
    Ok(ObjectEntry {
        object: ObjectRef {
            id,
            crc,
            len: stat.st_size as u64,
        },
        allocated: allocated(stat),
        device: (major(stat.st_dev), minor(stat.st_dev)),
        inode: stat.st_ino,
        published: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
    })
}

/// Memory that a file occupies, in bytes.
pub(crate) fn allocated(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(512)
}

fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT)
}

pub(crate) fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
    UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}
