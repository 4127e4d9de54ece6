//! One process, as its files in `/proc` show it.

use std::collections::{HashMap, HashSet};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

use super::cgroup::Container;

/// A file by the major and minor number of its device, and its inode number.
pub(super) type FileKey = ((u64, u64), u64);

/// Folders of a store whose files processes hold (LAYOUT.md 1). Only descriptors with such a name are
/// looked at closer.
const FOLDERS: [&[u8]; 2] = [b"/objects-v1/", b"/quarantine-v1/"];

/// The folder of the objects.
const OBJECTS: &str = "objects-v1";

/// The folder of a process in `/proc`.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    folder: PathBuf,
}

impl Process {
    /// All processes of this PID namespace, in order.
    pub(super) fn all() -> io::Result<Vec<Self>> {
        let entries = std::fs::read_dir("/proc")?.flatten();
        let mut all: Vec<Self> = entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let folder = entry.path();
                Some(Self { pid, folder })
            })
            .collect();
        all.sort_unstable_by_key(|process| process.pid);
        Ok(all)
    }

    /// Files among `wanted` that the process maps or has open.
    ///
    /// # Errors
    /// `PermissionDenied` where this process may not look; others when the process has ended.
    pub(super) fn held(&self, wanted: &HashSet<FileKey>) -> io::Result<HashSet<FileKey>> {
        let maps = std::fs::read(self.folder.join("maps"))?;
        let mut mapped: HashSet<FileKey> = mapped_files(&maps)
            .filter(|key| wanted.contains(key))
            .collect();
        let open = std::fs::read_dir(self.folder.join("fd"));
        for entry in open.into_iter().flatten().flatten() {
            let path = entry.path();
            mapped.extend(open_object(&path).filter(|key| wanted.contains(key)));
        }
        Ok(mapped)
    }

    /// Unnamed files of the store in `root` that the process has open, by inode, with their lengths in
    /// bytes: objects that it is writing. Another store of the same file system is distinguished by its path,
    /// unless that is another container's.
    pub(super) fn staged(&self, root: &Path) -> HashMap<u64, u64> {
        let Ok(root) = std::fs::metadata(root) else {
            return HashMap::new();
        };
        let open = std::fs::read_dir(self.folder.join("fd"));
        let open = open.into_iter().flatten().flatten();
        open.filter_map(|entry| staged_object(&entry.path(), &root))
            .collect()
    }

    /// The name of its program, as `ps` shows it; anything that the process wants.
    pub(super) fn command(&self) -> String {
        let comm = std::fs::read(self.folder.join("comm")).unwrap_or_default();
        String::from_utf8_lossy(&comm).trim_end().to_owned()
    }

    /// Its effective user id.
    pub(super) fn uid(&self) -> Option<u32> {
        let status = std::fs::read(self.folder.join("status")).ok()?;
        uid_in(&String::from_utf8_lossy(&status))
    }

    /// Its pod, container and service.
    pub(super) fn container(&self) -> Container {
        let cgroups = std::fs::read(self.folder.join("cgroup")).unwrap_or_default();
        Container::of_cgroups(&String::from_utf8_lossy(&cgroups))
    }
}

/// The file behind a descriptor, if its name is that of an object.
fn open_object(descriptor: &Path) -> Option<FileKey> {
    let name = std::fs::read_link(descriptor).ok()?;
    let name = name.as_os_str().as_bytes();
    let in_store = FOLDERS
        .iter()
        .any(|folder| name.windows(folder.len()).any(|part| part == *folder));
    let file = in_store.then(|| std::fs::metadata(descriptor).ok())??;
    let device = (major(file.dev()), minor(file.dev()));
    Some((device, file.ino()))
}

/// Inode and length of the unnamed file behind a descriptor, if it is of the store in the folder `root`.
fn staged_object(descriptor: &Path, root: &Metadata) -> Option<(u64, u64)> {
    let name = std::fs::read_link(descriptor).ok()?;
    // The kernel's name of an unnamed file: `/run/tetris/store/objects-v1/#123 (deleted)`.
    let folder = name.parent().filter(|folder| folder.ends_with(OBJECTS))?;
    if !name.file_name()?.as_bytes().starts_with(b"#") {
        return None;
    }
    let file = std::fs::metadata(descriptor).ok()?;
    // A path of another mount namespace leads nowhere here, or to something else.
    let other = std::fs::metadata(folder.parent()?);
    let is_other = other.is_ok_and(|other| other.dev() == root.dev() && other.ino() != root.ino());
    let here = file.dev() == root.dev() && file.nlink() == 0 && !is_other;
    here.then(|| (file.ino(), file.len()))
}

/// The effective user id in the text of `/proc/<pid>/status`.
fn uid_in(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The files that a process maps, from the text of `/proc/<pid>/maps`: device (major, minor) and inode
/// of each mapping of a file.
pub fn mapped_files(maps: &[u8]) -> impl Iterator<Item = ((u64, u64), u64)> {
    // The kernel writes line breaks in names as `\012`.
    maps.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ').skip(3);
        let device = std::str::from_utf8(fields.next()?).ok()?;
        let inode: u64 = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let (major, minor) = device.split_once(':')?;
        let major = u64::from_str_radix(major, 16).ok()?;
        let minor = u64::from_str_radix(minor, 16).ok()?;
        (inode != 0).then_some(((major, minor), inode))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_are_read_and_anonymous_ones_are_not() {
        let maps = b"7f00-7f01 r--s 00000000 00:2a 12345   /run/tetris/store/objects-v1/ab-0\n\
            7f02-7f03 rw-p 00000000 00:00 0 \n\
            7f04-7f05 r--s 00001000 103:02 7 /x\\012y\n\
            garbage\n";
        let keys: Vec<_> = mapped_files(maps).collect();
        assert_eq!(keys, [((0, 0x2a), 12345), ((0x103, 2), 7)]);
    }

    #[test]
    fn the_effective_user_counts() {
        let status = "Name:\tx\nUid:\t1000\t1001\t1002\t1003\nGid:\t1\t2\t3\t4\n";
        assert_eq!(uid_in(status), Some(1001));
        assert_eq!(uid_in("Name:\tx\n"), None);
    }
}
