//! Listing what is in a store.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};

use crate::digest::{DerivedId, Digest, IdentityId, ManifestId, ObjectId};
use crate::error::DecodeError;
use crate::error::{IoError, StoreError};
use crate::identity::{IdentityKey, decode_record};
use crate::interrupted::retried;
use crate::store::{Folder, ObjectRef, Store};

/// An object in the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The object.
    pub object: ObjectRef,
    /// Memory that it occupies, in bytes: its pages.
    pub allocated: u64,
    /// Inode number, by which locks name it.
    pub inode: u64,
    /// When it was published.
    pub published: SystemTime,
}

/// Something in the objects' directory that is not an object: reported, never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignEntry {
    /// Its file name.
    pub name: OsString,
    /// Why it is no object.
    pub reason: String,
}

/// All objects of a store at one moment.
#[derive(Debug, Default)]
pub struct ObjectListing {
    /// The objects, in no order.
    pub objects: Vec<ObjectEntry>,
    /// What else lies there.
    pub foreign: Vec<ForeignEntry>,
}

/// A manifest or derived record in the store's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordEntry<Id> {
    /// The record's name.
    pub id: Id,
    /// When a load used it last, as far as that load was allowed to say so.
    pub last_used: SystemTime,
    /// Length in bytes.
    pub len: u64,
}

impl Store {
    /// Lists all objects.
    pub fn objects(&self) -> Result<ObjectListing, StoreError> {
        self.object_folder(Folder::Objects)
    }

    /// Lists the objects that failed verification and were set aside.
    pub fn quarantined(&self) -> Result<ObjectListing, StoreError> {
        self.object_folder(Folder::Quarantine)
    }

    fn object_folder(&self, folder: Folder) -> Result<ObjectListing, StoreError> {
        let mut listing = ObjectListing::default();
        self.each_file(folder, |name, stat| match object_entry(&name, stat) {
            Ok(entry) => listing.objects.push(entry),
            Err(reason) => listing.foreign.push(ForeignEntry { name, reason }),
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

    /// Lists all identities with the manifests they are bound to; damaged ones as errors.
    pub fn identities(&self) -> Result<Vec<(IdentityId, BoundIdentity)>, StoreError> {
        let records: Vec<RecordEntry<IdentityId>> = self.records(Folder::Identities)?;
        let mut identities = Vec::with_capacity(records.len());
        for record in records {
            let name = record.id.to_string();
            if let Some(bytes) = self.read_record(Folder::Identities, &name, record.len)? {
                identities.push((record.id, decode_record(&bytes)));
            }
        }
        Ok(identities)
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
                });
            }
        })?;
        Ok(records)
    }

    /// Calls `visit` for each entry of a folder; entries that vanish meanwhile are left out.
    fn each_file(
        &self,
        folder: Folder,
        mut visit: impl FnMut(OsString, &FileStat),
    ) -> Result<(), StoreError> {
        use std::os::unix::ffi::OsStringExt;
        let path = || self.root().join(folder.name());
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir =
            retried(|| Dir::openat(self.folder(folder).as_fd(), ".", flags, Mode::empty()))
                .map_err(|error| IoError::new("list", path(), error))?;
        for entry in dir.iter() {
            let entry = entry.map_err(|error| IoError::new("list", path(), error))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let at = AtFlags::AT_SYMLINK_NOFOLLOW;
            match fstatat(self.folder(folder).as_fd(), name, at) {
                Ok(stat) => visit(OsString::from_vec(name.to_bytes().to_vec()), &stat),
                Err(Errno::ENOENT) => {}
                Err(error) => {
                    let name = OsString::from_vec(name.to_bytes().to_vec());
                    return Err(IoError::new("stat", path().join(name), error).into());
                }
            }
        }
        Ok(())
    }
}

/// What an identity record says, if it is undamaged.
pub type BoundIdentity = Result<(IdentityKey, ManifestId), DecodeError>;

/// Reads an object's file name.
pub(crate) fn parse_object_name(name: &str) -> Option<(ObjectId, u32)> {
    let (id, crc) = name.split_once('-')?;
    let id = ObjectId(id.parse::<Digest>().ok()?);
    let digits = crc.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (crc.len() == 8 && digits).then_some(())?;
    Some((id, u32::from_str_radix(crc, 16).ok()?))
}

fn object_entry(name: &OsString, stat: &FileStat) -> Result<ObjectEntry, String> {
    let (id, crc) = name
        .to_str()
        .and_then(parse_object_name)
        .ok_or("its name is not that of an object")?;
    if file_type(stat) != SFlag::S_IFREG {
        return Err("it is not a regular file".to_owned());
    }
    Ok(ObjectEntry {
        object: ObjectRef {
            id,
            crc,
            len: stat.st_size as u64,
        },
        allocated: stat.st_blocks as u64 * 512,
        inode: stat.st_ino,
        published: time(stat.st_mtime, stat.st_mtime_nsec),
    })
}

fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT)
}

fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
    UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}
