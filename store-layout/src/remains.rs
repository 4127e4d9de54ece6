//! The content of a store that cannot be used, and its removal: steps N1 to N4 of LAYOUT.md 5.7.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::lstat;

use crate::error::{IoError, StoreError};
use crate::folder::Folder;
use crate::held::is_held;
use crate::lock::{LockKind, try_lock};
use crate::open_file::{Opening, open_path};
use crate::scan::{ObjectEntry, object_entry};
use crate::store::{HEADER, is_part_of_store, names_in, open_dir};

/// Most rounds of N4: a process that had the store open may publish meanwhile.
const ROUNDS: u32 = 16;

/// The content of a store of any version, whose header may be damaged.
#[derive(Debug)]
pub struct StoreRemains {
    root: PathBuf,
    folders: Vec<PathBuf>,
    /// The objects of this version, those in quarantine included.
    pub objects: Vec<ObjectEntry>,
    /// Number of all files in the folders, and
    pub files: u64,
    /// the bytes that they take.
    pub bytes: u64,
}

/// The end of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// Everything is gone.
    All,
    /// A process maps an object, or is about to. The store is still there, with fewer objects.
    InUse,
}

impl StoreRemains {
    /// Looks at the store in `root`.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`] where neither a header nor a folder of a store is,
    /// [`StoreError::NotEmpty`] where anything else lies in the directory: it is not removed.
    pub fn of(root: &Path) -> Result<Self, StoreError> {
        let names = names_in(root)?;
        let is_folder = |name: &OsString| is_versioned(name) && root.join(name).is_dir();
        if !names.iter().any(|name| name == HEADER || is_folder(name)) {
            return Err(StoreError::NotAStore { path: root.into() });
        }
        let is_known = |name: &OsString| is_part_of_store(name) || is_folder(name);
        if !names.iter().all(is_known) {
            return Err(StoreError::NotEmpty { path: root.into() });
        }
        let folders = names.iter().filter(|name| is_folder(name));
        let mut remains = Self {
            root: root.to_owned(),
            folders: folders.map(|name| root.join(name)).collect(),
            objects: Vec::new(),
            files: 0,
            bytes: 0,
        };
        for folder in remains.folders.clone() {
            remains.count(&folder)?;
        }
        Ok(remains)
    }

    fn count(&mut self, folder: &Path) -> Result<(), IoError> {
        let of_objects = is_of_objects(folder);
        for name in names_in(folder)? {
            let Ok(stat) = lstat(&folder.join(&name)) else {
                continue;
            };
            self.files += 1;
            self.bytes += crate::scan::allocated(&stat);
            if of_objects && let Ok(entry) = object_entry(stat.st_uid, &name, &stat) {
                self.objects.push(entry);
            }
        }
        Ok(())
    }

    /// The objects that processes hold at this moment.
    ///
    /// # Errors
    /// When a folder cannot be listed, or an object cannot be asked.
    pub fn held(&self) -> Result<Vec<ObjectEntry>, IoError> {
        let mut objects = Vec::new();
        for folder in self.folders.iter().filter(|folder| is_of_objects(folder)) {
            let dir = open_dir(folder)?;
            for name in names_in(folder)? {
                let path = folder.join(&name);
                let Ok(stat) = lstat(&path) else { continue };
                let (Some(text), Ok(entry)) =
                    (name.to_str(), object_entry(stat.st_uid, &name, &stat))
                else {
                    continue;
                };
                if is_held(&dir, text)
                    .map_err(|error| IoError::new("ask who holds", path, error))?
                {
                    objects.push(entry);
                }
            }
        }
        Ok(objects)
    }

    /// Removes the content. The directory, and the files of a daemon in it, stay. With `force` held objects
    /// go as well: their holders keep the pages, and no one else finds them.
    ///
    /// # Errors
    /// When a file cannot be removed; what was removed before is gone.
    pub fn remove(&self, force: bool) -> Result<Removed, IoError> {
        for folder in self.folders.iter().filter(|folder| is_of_objects(folder)) {
            for name in names_in(folder)? {
                if remove_object(&folder.join(name), force)? == Removed::InUse {
                    return Ok(Removed::InUse);
                }
            }
        }
        let header = self.root.join(HEADER);
        unless_gone("unlink", &header, fs::remove_file(&header))?;
        for folder in &self.folders {
            remove_folder(folder)?;
        }
        Ok(Removed::All)
    }
}

/// Returns true for names such as `objects-v1`, of any version.
fn is_versioned(name: &OsStr) -> bool {
    let Some((kind, version)) = name.to_str().and_then(|name| name.split_once("-v")) else {
        return false;
    };
    let is_kind = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
    is_kind && !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for folders whose files processes map.
fn is_of_objects(folder: &Path) -> bool {
    let name = folder
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    [Folder::Objects, Folder::Quarantine].iter().any(|kind| {
        let kind = kind.name().split("-v").next().unwrap_or_default();
        name.strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with("-v"))
    })
}

/// N1: as R1 to R4, but by path, since the store cannot be opened.
fn remove_object(path: &Path, force: bool) -> Result<Removed, IoError> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Removed::All),
        Err(error) => return Err(IoError::new("stat", path, error)),
    };
    if kind.is_dir() {
        unless_gone("remove", path, fs::remove_dir_all(path))?;
        return Ok(Removed::All);
    }
    // Held until the name is gone. Something else than a file is nothing that a process maps.
    let mut locked = None;
    if kind.is_file() && !force {
        match lock(path) {
            Ok(Some(file)) => locked = Some(file),
            Ok(None) => return Ok(Removed::InUse),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Removed::All),
            Err(error) => return Err(IoError::new("lock", path, error)),
        }
    }
    unless_gone("unlink", path, fs::remove_file(path))?;
    drop(locked);
    Ok(Removed::All)
}

/// The write lock on a file; `None` when it is referenced, or someone has a lease on it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    match open_for_locking(path) {
        Ok(file) => Ok(try_lock(&file, LockKind::Write)?.then_some(file)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// A write lock needs a writable descriptor, and objects are read-only even to their owner.
fn open_for_locking(path: &Path) -> io::Result<File> {
    match open_path(path, Opening::Write) {
        Err(Errno::EACCES) => {
            fs::set_permissions(path, Permissions::from_mode(0o644))?;
            let opened = open_path(path, Opening::Write);
            fs::set_permissions(path, Permissions::from_mode(0o444))?;
            Ok(opened?)
        }
        opened => Ok(opened?),
    }
}

/// N3 and N4: removes a folder, though processes that had the store open may still add to it.
fn remove_folder(folder: &Path) -> Result<(), IoError> {
    let mut removed = Ok(());
    for _ in 0..ROUNDS {
        removed = fs::remove_dir_all(folder);
        match &removed {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
    }
    unless_gone("remove", folder, removed)
}

fn unless_gone(action: &'static str, path: &Path, done: io::Result<()>) -> Result<(), IoError> {
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(IoError::new(action, path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::store::{CreateOptions, DAEMON_FILES, Store};

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        (dir, store)
    }

    #[test]
    fn names_of_any_version_are_known() {
        for name in ["objects-v1", "objects-v12", "other-v2"] {
            assert!(is_versioned(OsStr::new(name)), "{name}");
        }
        for name in [
            "objects",
            "objects-v",
            "-v1",
            "objects-v1x",
            "Data-v1",
            "a/b-v1",
        ] {
            assert!(!is_versioned(OsStr::new(name)), "{name}");
        }
        assert!(is_of_objects(Path::new("/x/objects-v2")));
        assert!(is_of_objects(Path::new("/x/quarantine-v1")));
        assert!(!is_of_objects(Path::new("/x/manifests-v1")));
    }

    #[test]
    fn a_held_object_keeps_the_store_unless_it_is_forced() {
        let (dir, store) = store();
        let mapped = store.publish(&[1; 5000], Access::ReadOnly).unwrap();
        fs::write(dir.path().join(HEADER), b"damage").unwrap();
        let remains = StoreRemains::of(dir.path()).unwrap();
        assert_eq!((remains.files, remains.objects.len()), (1, 1));
        assert!(remains.bytes >= 5000);
        assert_eq!(remains.held().unwrap().len(), 1);
        assert_eq!(remains.remove(false).unwrap(), Removed::InUse);
        assert!(store.contains(&mapped.object), "it is still there");
        assert_eq!(remains.remove(true).unwrap(), Removed::All);
        assert_eq!(mapped.mapping[..], [1; 5000], "its holder keeps it");
        assert!(matches!(
            Store::open(dir.path()),
            Err(StoreError::NotAStore { .. })
        ));
        let anew = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        assert_ne!(anew.id(), store.id());
        assert_eq!(anew.objects().unwrap().objects, []);
    }

    #[test]
    fn a_store_of_another_version_goes_and_daemon_files_stay() {
        let (dir, _store) = store();
        fs::create_dir(dir.path().join("objects-v2")).unwrap();
        fs::write(dir.path().join("objects-v2/x"), b"x").unwrap();
        fs::write(dir.path().join(DAEMON_FILES[0]), b"").unwrap();
        let remains = StoreRemains::of(dir.path()).unwrap();
        assert_eq!(remains.remove(false).unwrap(), Removed::All);
        let left = names_in(dir.path()).unwrap();
        assert!(
            left.iter()
                .all(|name| name == "locks" || name == DAEMON_FILES[0]),
            "{left:?}"
        );
    }

    #[test]
    fn what_is_no_store_is_left_alone() {
        let (dir, _store) = store();
        fs::write(dir.path().join("thesis.tex"), b"x").unwrap();
        let refused = StoreRemains::of(dir.path()).unwrap_err();
        assert!(matches!(refused, StoreError::NotEmpty { .. }), "{refused}");
        let empty = tempfile::tempdir().unwrap();
        let refused = StoreRemains::of(empty.path()).unwrap_err();
        assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused}");
    }
}
