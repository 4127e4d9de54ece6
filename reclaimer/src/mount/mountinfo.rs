//! Entries of `/proc/thread-self/mountinfo` (proc_pid_mountinfo(5)).

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::PathBuf;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use tetris_store_layout::unescaped_path;

/// Of the thread, not of the process: a thread can be in its own mount namespace.
const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Its number, unique while it is mounted.
    pub id: u64,
    /// The file system's device, as `major:minor`.
    pub device: String,
    /// The directory of the file system seen at the mount point.
    pub root: PathBuf,
    /// Mount point, as this process sees it.
    pub mount_point: PathBuf,
    /// Options of this mount, `ro` and `nodev` among them.
    pub options: Vec<String>,
    /// True if mounts below it appear in other namespaces too.
    pub shared: bool,
    /// `tmpfs` and so on.
    pub fs_type: String,
    /// The name that its maker gave the file system.
    pub source: String,
    /// Options of the file system, which all its mounts have in common.
    pub super_options: Vec<String>,
}

impl MountEntry {
    /// One line; `None` when it is not of the documented form.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line
            .split(|byte| *byte == b' ')
            .filter(|field| !field.is_empty());
        let id = text(fields.next()?).parse().ok()?;
        let _parent = fields.next()?;
        let device = text(fields.next()?);
        let root = unescaped_path(fields.next()?);
        let mount_point = unescaped_path(fields.next()?);
        let options = list(fields.next()?);
        let optional = fields.by_ref().take_while(|field| *field != b"-");
        // All are read, so that the next field is the one after the separator.
        let shared = optional
            .filter(|field| field.starts_with(b"shared:"))
            .count()
            > 0;
        let fs_type = text(fields.next()?);
        let source = unescaped_path(fields.next()?)
            .to_string_lossy()
            .into_owned();
        let super_options = list(fields.next()?);
        Some(Self {
            id,
            device,
            root,
            mount_point,
            options,
            shared,
            fs_type,
            source,
            super_options,
        })
    }

    /// Returns true if this mount is read-only.
    pub fn is_read_only(&self) -> bool {
        self.has("ro")
    }

    /// Returns true if the ids of users and groups are others through this mount.
    pub fn is_idmapped(&self) -> bool {
        self.has("idmapped")
    }

    /// Returns true if the mount has this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|found| found == option)
    }

    /// The value of an option of the file system; empty for one that has none.
    pub fn super_option(&self, name: &str) -> Option<&str> {
        self.super_options.iter().find_map(|option| {
            let (found, value) = option.split_once('=').unwrap_or((option, ""));
            (found == name).then_some(value)
        })
    }
}

/// Flags of a look at what the kernel knows by itself: the server of a FUSE file system is not asked, which may not answer.
const UNASKED: AtFlags = AtFlags::EMPTY_PATH.union(AtFlags::STATX_DONT_SYNC);

/// Returns true if `file` is the root of a mount.
pub fn is_mount_root(file: impl AsFd) -> io::Result<bool> {
    let stat = statx(file, "", UNASKED, StatxFlags::MNT_ID)?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// The mount that `file` was opened through. Paths do not tell: mounts can lie on top of each
/// other.
pub fn mount_of(file: impl AsFd) -> io::Result<MountEntry> {
    let stat = statx(file, "", UNASKED, StatxFlags::MNT_ID)?;
    if stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        let message = "this kernel does not say which mount a file is on; Linux 5.8 does";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let mut entries = all_mounts()?.into_iter();
    entries
        .find(|entry| entry.id == stat.stx_mnt_id)
        .ok_or_else(|| {
            let message = format!("mount {} is not in {MOUNTINFO}", stat.stx_mnt_id);
            io::Error::new(io::ErrorKind::NotFound, message)
        })
}

/// All mounts of this thread's mount namespace.
pub fn all_mounts() -> io::Result<Vec<MountEntry>> {
    let lines = std::fs::read(MOUNTINFO)?;
    let entries = lines.split(|byte| *byte == b'\n');
    Ok(entries.filter_map(MountEntry::parse).collect())
}

/// Returns true if a directory is mounted by itself somewhere in this thread's mount namespace. The
/// mount through which it was opened does not count.
pub fn is_mounted_elsewhere(dir: impl AsFd) -> io::Result<bool> {
    let through = mount_of(&dir)?;
    // As mountinfo has it, without symbolic links.
    let descriptor = format!("/proc/thread-self/fd/{}", dir.as_fd().as_raw_fd());
    let dir = std::fs::read_link(descriptor)?;
    let below = dir.strip_prefix(&through.mount_point).map_err(|_| {
        let message = format!("mounted at {}", through.mount_point.display());
        io::Error::other(message)
    })?;
    let root = through.root.join(below);
    let mut entries = all_mounts()?.into_iter();
    Ok(entries.any(|entry| entry.device == through.device && entry.root.starts_with(&root)))
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Options, separated by commas outside of quotation marks, as SELinux contexts have them.
fn list(field: &[u8]) -> Vec<String> {
    let mut quoted = false;
    let options = field.split(|byte| {
        quoted ^= *byte == b'"';
        *byte == b',' && !quoted
    });
    options.map(text).collect()
}
