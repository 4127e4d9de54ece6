//! Quarantined records: they keep their bytes, and no process reads them (LAYOUT.md 5.8).

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, renameat};
use nix::sys::stat::{Mode, fstatat};

use crate::crash;
use crate::error::{IoError, StoreError};
use crate::folder::{Folder, SUSPECT};
use crate::interrupted::retried;
use crate::scan::allocated;
use crate::store::{RECLAIMER_STATE, Store, open_folder};
use crate::usage::RecordUse;

/// Number of records moved before their folder is listed again, so that a folder of any length takes no memory.
const BATCH: usize = 1024;
/// Most files of one name that are quarantined.
const MAX_OF_ONE_NAME: u32 = 1000;

impl Store {
    /// Moves all manifests, identities and derived records, and what a daemon learned, out of the read folders.
    /// Nothing of them is opened. Objects stay where they are. Returns the number of files moved.
    ///
    /// # Errors
    /// When a file cannot be moved. Those that were moved before stay quarantined.
    pub fn set_records_aside(&self) -> Result<u64, StoreError> {
        let path = self.suspect_dir();
        make_private(&path)?;
        let suspect = open_folder(&path)?;
        let mut moved = 0;
        for (folder, kind) in [
            (Folder::Derived, "derived"),
            (Folder::Manifests, "manifest"),
            (Folder::Identities, "identity"),
        ] {
            loop {
                let names = self.first_names(folder)?;
                if names.is_empty() {
                    break;
                }
                for name in names {
                    let mut to = OsString::from(format!("{kind}-"));
                    to.push(&name);
                    let from = self.folder(folder);
                    let path = self.root().join(folder.name());
                    moved += u64::from(set_aside(from, &path, &name, &suspect, &to)?);
                    crash::passed("record quarantined");
                }
            }
        }
        let root = crate::store::open_dir(self.root())?;
        let learned = OsStr::new(RECLAIMER_STATE);
        moved += u64::from(set_aside(&root, self.root(), learned, &suspect, learned)?);
        Ok(moved)
    }

    /// Room of the files that were quarantined, which count in the store's usage.
    pub fn records_quarantined(&self) -> Result<RecordUse, IoError> {
        let path = self.suspect_dir();
        let mut used = RecordUse::default();
        let folder = match open_folder(&path) {
            Ok(folder) => folder,
            Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(used),
            Err(error) => return Err(error),
        };
        let mut dir = list(&folder).map_err(|error| IoError::new("list", &path, error))?;
        for entry in dir.iter() {
            let entry = entry.map_err(|error| IoError::new("list", &path, error))?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match fstatat(&folder, entry.file_name(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let bytes = allocated(&stat);
                    used = used.plus(RecordUse { bytes, files: 1 });
                }
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(IoError::new("stat", &path, error)),
            }
        }
        Ok(used)
    }

    /// The folder of records that were quarantined.
    pub fn suspect_dir(&self) -> PathBuf {
        self.root().join(SUSPECT)
    }

    /// The first names of a folder, in no order.
    fn first_names(&self, folder: Folder) -> Result<Vec<OsString>, IoError> {
        let failed = |error| IoError::new("list", self.root().join(folder.name()), error);
        let mut dir = list(self.folder(folder)).map_err(failed)?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsString::from_vec(name.to_vec()));
            }
            if names.len() == BATCH {
                break;
            }
        }
        Ok(names)
    }
}

fn list(folder: impl AsFd) -> Result<Dir, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    retried(|| Dir::openat(folder.as_fd(), ".", flags, Mode::empty()))
}

/// Makes the folder, which only its owner can list.
fn make_private(path: &Path) -> Result<(), IoError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(IoError::new("create directory", path, error))
        }
        _ => Ok(()),
    }
}

/// Moves a file, and replaces none. False if it has gone.
fn set_aside(
    from: &OwnedFd,
    path: &Path,
    name: &OsStr,
    suspect: &OwnedFd,
    to: &OsStr,
) -> Result<bool, IoError> {
    let failed = |error| IoError::new("quarantined", path.join(name), error);
    let mut free = to.to_owned();
    for number in 1..=MAX_OF_ONE_NAME {
        match fstatat(suspect, free.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Err(Errno::ENOENT) => break,
            Err(error) => return Err(failed(error)),
            Ok(_) if number == MAX_OF_ONE_NAME => return Err(failed(Errno::EEXIST)),
            Ok(_) => {
                to.clone_into(&mut free);
                free.push(format!(".{number}"));
            }
        }
    }
    match renameat(from, name, suspect, free.as_os_str()) {
        Ok(()) => Ok(true),
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::derived::DerivedKey;
    use crate::digest::TensorId;
    use crate::store::CreateOptions;

    #[test]
    fn records_are_moved_and_none_is_replaced() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        assert_eq!(store.records_quarantined().unwrap(), RecordUse::default());
        let mapped = store.publish(b"held", Access::ReadOnly).unwrap();
        std::fs::write(dir.path().join(RECLAIMER_STATE), "learned").unwrap();
        std::fs::write(dir.path().join("manifests-v1/no record"), "x").unwrap();
        std::fs::create_dir(dir.path().join("identities-v1/directory")).unwrap();
        // More than one batch.
        for version in 0..=BATCH as u32 {
            let key = DerivedKey::new(TensorId::of(b"source"), "cast", version).unwrap();
            store.record_derived(&key, mapped.object).unwrap();
        }
        let files = BATCH as u64 + 4;
        assert_eq!(store.set_records_aside().unwrap(), files);
        let used = store.records_quarantined().unwrap();
        assert_eq!(used.files, files);
        assert!(used.bytes >= BATCH as u64 * 4096);
        assert_eq!(store.record_use().unwrap(), RecordUse::default());
        assert!(store.contains(&mapped.object));
        assert_eq!(store.set_records_aside().unwrap(), 0);

        // The same names again: both files stay.
        std::fs::write(dir.path().join(RECLAIMER_STATE), "learned again").unwrap();
        assert_eq!(store.set_records_aside().unwrap(), 1);
        let read = |name: &str| std::fs::read_to_string(store.suspect_dir().join(name)).unwrap();
        assert_eq!(read("reclaimer-state"), "learned");
        assert_eq!(read("reclaimer-state.1"), "learned again");
        assert!(store.foreign().unwrap().is_empty());
    }
}
