//! File systems of model files: which of them may be trusted to tell one file from another by `stat`, and what identifies the file
//! systems apart (LAYOUT.md 3.3, 8).

mod overlay;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sys::stat::{major, minor};
use nix::sys::statfs::fstatfs;

use crate::file_identity::FileIdentity;
use crate::interrupted::retried;

/// Knowledge of a type of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The kernel keeps a ctime that no process can set.
    Sound,
    /// As sound as its layers.
    Layers,
    /// It answers without a network or a process; its identities prove nothing, or no one has shown that they do.
    Local,
}

/// All known types, by magic (statfs(2), linux/magic.h); the only such list. Images such as squashfs
/// and erofs take their times from their maker.
const KNOWN: [(u32, Known); 9] = [
    // ext2, ext3 and ext4
    (0xef53, Known::Sound),
    // xfs
    (0x5846_5342, Known::Sound),
    // btrfs
    (0x9123_683e, Known::Sound),
    // f2fs
    (0xf2f5_2010, Known::Sound),
    // tmpfs
    (0x0102_1994, Known::Sound),
    // overlayfs
    (0x794c_7630, Known::Layers),
    // zfs
    (0x2fc1_2fc1, Known::Local),
    // squashfs
    (0x7371_7368, Known::Local),
    // erofs
    (0xe0f5_e1e2, Known::Local),
];

/// Names of types, by magic (statfs(2), linux/magic.h), for messages.
const NAMES: [(u32, &str); 20] = [
    (0xef53, "ext4 (or ext2, ext3)"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0x2fc1_2fc1, "zfs"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
    (0x4d44, "vfat"),
    (0x9660, "iso9660"),
    (0x9fa0, "proc"),
];

/// The type of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemType {
    magic: u32,
}

impl FileSystemType {
    /// The type of the file system that a file lies on.
    ///
    /// # Errors
    /// Result of `fstatfs`.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = retried(|| fstatfs(file.as_fd()))?;
        // Magic numbers have 32 bits, whatever the width of the field.
        let magic = stat.filesystem_type().0 as u32;
        Ok(Self { magic })
    }

    /// Its magic number.
    pub fn magic(self) -> u32 {
        self.magic
    }

    /// Its name, if it is one that machines commonly have.
    pub fn name(self) -> Option<&'static str> {
        let entry = NAMES.iter().find(|(magic, _)| *magic == self.magic);
        entry.map(|(_, name)| *name)
    }

    /// Returns true if it answers without a network or a process. True for overlayfs, independent
    /// of its layers.
    pub fn is_local(self) -> bool {
        self.known().is_some()
    }

    fn known(self) -> Option<Known> {
        let entry = KNOWN.iter().find(|(magic, _)| *magic == self.magic);
        entry.map(|(_, known)| *known)
    }
}

impl fmt::Display for FileSystemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "a file system of type {:#x}", self.magic),
        }
    }
}

/// A file system whose files `stat` distinguishes: part of each stat identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileSystem {
    /// Magic number of its type.
    pub magic: u32,
    /// `f_fsid` of statfs(2), its first number in the low half.
    pub id: u64,
    /// Number that distinguishes it from another one with the same device number: `diskseq` of the block
    /// device, a digest of the layers of an overlay, or 0.
    pub instance: u64,
}

impl FileSystem {
    /// The file system of an open file with this identity; `None` where an identity must be neither bound nor looked up, or
    /// where that cannot be found out.
    pub fn of(file: &File, identity: &FileIdentity) -> Option<Self> {
        let kind = FileSystemType::of(file).ok()?;
        match kind.known()? {
            Known::Sound => Self::sound(file, kind, identity.dev),
            Known::Layers => Some(Self {
                magic: kind.magic,
                id: fsid(file)?,
                instance: overlay::instance(file)?,
            }),
            Known::Local => None,
        }
    }

    /// `None` if nothing distinguishes it from another file system that is given its device number.
    fn sound(file: &File, kind: FileSystemType, dev: u64) -> Option<Self> {
        // The key has no room for more, and Linux no such device.
        u32::try_from(dev).ok()?;
        let system = Self {
            magic: kind.magic,
            id: fsid(file)?,
            instance: disk_sequence(dev),
        };
        (system.id != 0 || system.instance != 0).then_some(system)
    }
}

/// Not through nix, which gives out no part of `f_fsid`.
fn fsid(file: &File) -> Option<u64> {
    loop {
        match rustix::fs::fstatvfs(file) {
            Err(rustix::io::Errno::INTR) => {}
            stat => return Some(stat.ok()?.f_fsid),
        }
    }
}

/// The number that the kernel gave the disk under a block device when its medium came, and gives to no other; 0 for no block device
/// and where sysfs does not say.
fn disk_sequence(dev: u64) -> u64 {
    let (major, minor) = (major(dev), minor(dev));
    if major == 0 {
        return 0;
    }
    // A partition has none; its folder is inside that of its disk.
    ["", "../"]
        .iter()
        .find_map(|disk| read_number(&format!("/sys/dev/block/{major}:{minor}/{disk}diskseq")))
        .unwrap_or(0)
}

/// A file of sysfs fits into one read; `read_to_string` would make more calls.
fn read_number(path: &str) -> Option<u64> {
    use std::io::Read;
    let mut text = [0; 24];
    let mut file = File::open(path).ok()?;
    let len = loop {
        match file.read(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read.ok()?,
        }
    };
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    text.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &File) -> Option<FileSystem> {
        FileSystem::of(file, &FileIdentity::of(&file.metadata().unwrap()))
    }

    #[test]
    fn types_are_called_by_their_names_where_machines_commonly_have_them() {
        let tmpfs = tempfile::tempfile_in("/dev/shm").unwrap();
        assert_eq!(FileSystemType::of(&tmpfs).unwrap().to_string(), "tmpfs");
        let of = |magic| FileSystemType { magic }.to_string();
        assert_eq!(of(0xef53), "ext4 (or ext2, ext3)");
        assert_eq!(of(0x1234), "a file system of type 0x1234");
        for (magic, _) in KNOWN {
            assert!(FileSystemType { magic }.name().is_some(), "{magic:#x}");
        }
    }

    #[test]
    fn a_tmpfs_has_an_identity_of_its_own() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let system = of(&file).unwrap();
        assert_eq!(system.magic, 0x0102_1994);
        assert_ne!(system.id, 0);
        assert_eq!(of(&file), Some(system));
    }

    #[test]
    fn a_file_system_that_nobody_has_shown_to_be_sound_has_none() {
        assert_eq!(of(&File::open("/proc/self/status").unwrap()), None);
        assert!(
            !FileSystemType::of(File::open("/proc/self/status").unwrap())
                .unwrap()
                .is_local()
        );
        for (magic, known) in KNOWN {
            let sound = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
            assert_eq!(known == Known::Sound, sound.contains(&magic), "{magic:#x}");
        }
    }

    #[test]
    fn a_disk_and_its_partitions_have_one_sequence_and_no_disk_has_none() {
        assert_eq!(disk_sequence(0x1f), 0);
        let sequence = |path: std::path::PathBuf| read_number(path.join("diskseq").to_str()?);
        for disk in std::fs::read_dir("/sys/dev/block").unwrap() {
            let disk = disk.unwrap();
            let name = disk.file_name().into_string().unwrap();
            let (major, minor) = name.split_once(':').unwrap();
            let dev = nix::sys::stat::makedev(major.parse().unwrap(), minor.parse().unwrap());
            let sequence_of_disk =
                sequence(disk.path()).or_else(|| sequence(disk.path().join("..")));
            assert_eq!(disk_sequence(dev), sequence_of_disk.unwrap_or(0), "{name}");
        }
    }
}
