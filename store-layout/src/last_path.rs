//! The path by which a model was last loaded: a hint for people (LAYOUT.md 3.6).
//!
//! A hint is a symbolic link that leads nowhere, with the path in its target: it is made in one step,
//! has no length field to trust, and takes an inode and no page where the path is short. Nothing
//! opens it. Its path comes from the client and may be anything.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{Mode, UtimensatFlags, fstatat, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};

use crate::digest::ManifestId;
use crate::folder::Folder;
use crate::interrupted::retried;
use crate::scan::time;
use crate::store::Store;

/// The folder as it is reached from the folder of the objects, whose descriptor the store has.
const FROM_OBJECTS: &str = "../paths-v1";
/// Most bytes of a target: the kernel's limit for symbolic links.
const MAX_TARGET: usize = 4095;
/// A hint that was written this lately is left alone.
const REST: Duration = Duration::from_mins(1);
/// Most attempts to write a hint beside others who write it.
const ATTEMPTS: u32 = 3;

/// The path by which a model was last loaded. A hint, of which nothing may be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastPath {
    /// The absolute path. Any bytes.
    pub path: PathBuf,
    /// Inode number of the mount namespace in which the path was valid; `None` where it is not known.
    pub namespace: Option<u64>,
}

impl LastPath {
    /// The path `path` as this process sees it; a relative one counts from the current directory.
    pub fn of_path(path: &Path) -> Option<Self> {
        Some(Self {
            path: std::path::absolute(path).ok()?,
            namespace: own_namespace(),
        })
    }

    /// The path that the kernel knows for an open file, as the process that opened it sees it. `None` for
    /// a file that has no path any more, or never had one.
    pub fn of_file(file: &File) -> Option<Self> {
        let fd = file.as_raw_fd();
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
        let has_name = path.is_absolute() && !path.as_os_str().as_bytes().ends_with(b" (deleted)");
        has_name.then(|| Self {
            path,
            namespace: own_namespace().filter(|_| is_on_own_mount(fd)),
        })
    }

    /// Returns true if the path was valid in this process's mount namespace.
    pub fn is_of_this_namespace(&self) -> bool {
        self.namespace.is_some() && self.namespace == own_namespace()
    }

    /// The hint's target; `None` when it is too long.
    fn encode(&self) -> Option<OsString> {
        let mut target = format!("{}:", self.namespace.unwrap_or(0)).into_bytes();
        target.extend(self.path.as_os_str().as_bytes());
        (target.len() <= MAX_TARGET).then(|| OsString::from_vec(target))
    }

    fn decode(target: &OsStr) -> Option<Self> {
        let bytes = target.as_bytes();
        let colon = bytes.iter().position(|&byte| byte == b':')?;
        let namespace = std::str::from_utf8(bytes.get(..colon)?)
            .ok()?
            .parse()
            .ok()?;
        let path = PathBuf::from(OsStr::from_bytes(bytes.get(colon + 1..)?));
        path.is_absolute().then_some(Self {
            path,
            namespace: (namespace != 0).then_some(namespace),
        })
    }
}

impl Store {
    /// The path by which the model of this manifest was last loaded, if someone noted it.
    pub fn last_path(&self, id: ManifestId) -> Option<LastPath> {
        let target = readlinkat(self.folder(Folder::Objects), hint(id).as_str()).ok()?;
        LastPath::decode(&target)
    }

    /// Notes a path by which the model was loaded, where this process may publish. A hint that is younger
    /// than a minute stays, and `path` is not asked for. Nothing fails when it cannot be noted.
    pub fn note_last_path(&self, id: ManifestId, path: impl FnOnce() -> Option<LastPath>) {
        if !self.is_writable() || self.hint_age(id).is_some_and(|age| age < REST) {
            return;
        }
        // A hint without a manifest would be no one's.
        if self.manifest_len(id).is_none() {
            return;
        }
        if let Some(target) = path().and_then(|path| path.encode()) {
            let _only_a_hint = self.write_hint(&hint(id), &target);
        }
    }

    /// Time since a hint was written; `None` when there is none, or it is of the future.
    fn hint_age(&self, id: ManifestId) -> Option<Duration> {
        let at = AtFlags::AT_SYMLINK_NOFOLLOW;
        let stat = fstatat(self.folder(Folder::Objects), hint(id).as_str(), at).ok()?;
        let written = time(stat.st_mtime, stat.st_mtime_nsec);
        SystemTime::now().duration_since(written).ok()
    }

    fn write_hint(&self, name: &str, target: &OsStr) -> Result<(), Errno> {
        let objects = self.folder(Folder::Objects);
        for _ in 0..ATTEMPTS {
            match symlinkat(target, objects, name) {
                Ok(()) => return Ok(()),
                Err(Errno::ENOENT) => match mkdirat(objects, FROM_OBJECTS, folder_mode()) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error),
                },
                Err(Errno::EEXIST) => {
                    if readlinkat(objects, name).is_ok_and(|found| found == target) {
                        let (omit, now) = (TimeSpec::UTIME_OMIT, TimeSpec::UTIME_NOW);
                        let no_follow = UtimensatFlags::NoFollowSymlink;
                        return utimensat(objects, name, &omit, &now, no_follow);
                    }
                    // As every record: absent for a moment.
                    match unlinkat(objects, name, UnlinkatFlags::NoRemoveDir) {
                        Ok(()) | Err(Errno::ENOENT) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes the hint of a manifest, if there is one.
    pub(crate) fn remove_last_path(&self, id: ManifestId) {
        let objects = self.folder(Folder::Objects);
        let _none = unlinkat(objects, hint(id).as_str(), UnlinkatFlags::NoRemoveDir);
    }

    /// Removes hints of manifests that are gone. Those that cannot be removed stay: they are hints.
    pub(crate) fn collect_last_paths(&self) {
        for name in self.hint_names() {
            let id = name.to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id.map(ManifestId)
                && self.manifest_len(id).is_none()
            {
                self.remove_last_path(id);
            }
        }
    }

    /// Names in the folder of the hints.
    pub(crate) fn hint_names(&self) -> Vec<OsString> {
        let objects = self.folder(Folder::Objects);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = retried(|| Dir::openat(objects, FROM_OBJECTS, flags, Mode::empty()));
        let Ok(mut folder) = opened else {
            return Vec::new();
        };
        let names = folder
            .iter()
            .flatten()
            .map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec()));
        names.filter(|name| name != "." && name != "..").collect()
    }
}

/// The hint of a manifest, from the folder of the objects.
fn hint(id: ManifestId) -> String {
    format!("{FROM_OBJECTS}/{id}")
}

fn folder_mode() -> Mode {
    Mode::from_bits_truncate(0o755)
}

/// Inode number of this process's mount namespace.
fn own_namespace() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/mnt")
        .ok()
        .map(|namespace| namespace.ino())
}

/// Returns true if the file was opened through a mount of this process's mount namespace.
fn is_on_own_mount(fd: i32) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let Some(mount) = mount.map(str::trim) else {
        return false;
    };
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    mounts
        .split(|&byte| byte == b'\n')
        .any(|line| line.split(|&byte| byte == b' ').next() == Some(mount.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::PATHS;
    use crate::store::CreateOptions;

    const ID: &str = "00000000000000000000000000000000000000000000000000000000000000ab";

    #[test]
    fn paths_round_trip_with_any_bytes() {
        for (path, namespace) in [
            (&b"/models/x.safetensors"[..], Some(4_026_531_841)),
            (b"/a:b\n\x1b[2J\xff", None),
        ] {
            let path = PathBuf::from(OsStr::from_bytes(path));
            let last = LastPath { path, namespace };
            assert_eq!(LastPath::decode(&last.encode().unwrap()), Some(last));
        }
    }

    #[test]
    fn other_targets_are_no_hints() {
        for target in ["", "7", "x:/y", "7:relative", "-1:/x", ":/x", "/etc/passwd"] {
            assert_eq!(LastPath::decode(OsStr::new(target)), None, "{target}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_not_noted() {
        let path = PathBuf::from(format!("/{}", "x".repeat(MAX_TARGET)));
        let last = LastPath {
            path,
            namespace: None,
        };
        assert_eq!(last.encode(), None);
    }

    #[test]
    fn the_path_of_a_file_is_that_of_its_name_while_it_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("x");
        let file = File::create(&path).unwrap();
        let last = LastPath::of_file(&file).unwrap();
        assert_eq!(last.path, path);
        assert!(last.is_of_this_namespace());
        assert_eq!(LastPath::of_path(&path), Some(last));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(LastPath::of_file(&file), None);
    }

    #[test]
    fn a_hint_needs_its_manifest() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let id = ManifestId(ID.parse().unwrap());
        store.note_last_path(id, || LastPath::of_path(Path::new("/x")));
        assert_eq!(store.last_path(id), None);
        // One whose manifest went without it.
        std::os::unix::fs::symlink("0:/x", dir.path().join(PATHS).join(ID)).unwrap();
        assert_eq!(store.last_path(id).unwrap().path, Path::new("/x"));
        store.collect_records().unwrap();
        assert_eq!(store.last_path(id), None);
    }
}
