//! Mounting a tmpfs for a store.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use tetris_store_layout::{IoError, unescaped_path};

/// The kernel's list of mounts.
const TABLE: &str = "/proc/self/mountinfo";
/// Flags of every mount that this command makes: a store holds data, nothing else. A load notes when it
/// used a record by setting its access time; to list records must not count as that.
const FLAGS: MsFlags = MsFlags::MS_NODEV
    .union(MsFlags::MS_NOSUID)
    .union(MsFlags::MS_NOEXEC)
    .union(MsFlags::MS_NOATIME);
/// Bytes per inode. An object has 64 KiB and more, several times that on average, and a few records
/// come with each model; tmpfs's own default, one inode per two pages of RAM, would do for large
/// stores, but a small store on a small machine could run out.
const BYTES_PER_INODE: u64 = 16 << 10;
/// Inodes of the smallest store: an inode costs memory only when it is used.
const MIN_INODES: u64 = 65_536;

/// Size of the pages that a tmpfs gives its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Huge {
    /// 2 MiB pages wherever they lie inside the file, 4 KiB pages for the rest
    WithinSize,
    /// 2 MiB pages even where they exceed the file; wastes up to 2 MiB per object
    Always,
    /// 4 KiB pages
    Never,
}

impl Huge {
    /// The option's name for the kernel.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::WithinSize => "within_size",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// A mounted file system, as /proc/self/mountinfo lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The mount point.
    pub(crate) point: PathBuf,
    /// Its type.
    pub(crate) kind: String,
    flags: Vec<String>,
    options: Vec<String>,
}

impl Mount {
    /// The file system that `path` lies on.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, IoError> {
        let resolve = |error| IoError::new("resolve", path, error);
        let path = path.canonicalize().map_err(resolve)?;
        let read = |error| IoError::new("read", TABLE, error);
        let table = std::fs::read(TABLE).map_err(read)?;
        let mounts = table.split(|&b| b == b'\n').filter_map(parse_line);
        let below = mounts.filter(|mount| path.starts_with(&mount.point));
        // Of several at one mount point, the last hides the others.
        Ok(below.max_by_key(|mount| mount.point.components().count()))
    }

    /// Returns true for a tmpfs.
    pub(crate) fn is_tmpfs(&self) -> bool {
        self.kind == "tmpfs"
    }

    /// Returns true if its pages are never swapped out.
    pub(crate) fn noswap(&self) -> bool {
        self.options.iter().any(|option| option == "noswap")
    }

    /// Changes size and pages. Inodes are only ever added.
    pub(crate) fn remount(
        &self,
        size: Option<u64>,
        huge: Option<Huge>,
        inodes: u64,
    ) -> Result<(), Errno> {
        let mut data = Vec::new();
        if let Some(size) = size {
            data.push(format!("size={size}"));
            data.push(format!("nr_inodes={}", inodes_for(size).max(inodes)));
        }
        data.extend(huge.map(|huge| format!("huge={}", huge.name())));
        let flags = MsFlags::MS_REMOUNT | self.ms_flags();
        mount(
            None::<&str>,
            &self.point,
            None::<&str>,
            flags,
            Some(data.join(",").as_str()),
        )
    }

    /// A remount sets all flags anew.
    fn ms_flags(&self) -> MsFlags {
        let known = [
            ("ro", MsFlags::MS_RDONLY),
            ("nosuid", MsFlags::MS_NOSUID),
            ("nodev", MsFlags::MS_NODEV),
            ("noexec", MsFlags::MS_NOEXEC),
            ("noatime", MsFlags::MS_NOATIME),
            ("nodiratime", MsFlags::MS_NODIRATIME),
            ("relatime", MsFlags::MS_RELATIME),
        ];
        let set = known
            .into_iter()
            .filter(|(name, _)| self.flags.iter().any(|flag| flag == name));
        set.fold(MsFlags::empty(), |flags, (_, flag)| flags | flag)
    }
}

/// Mounts a tmpfs of `size` bytes on `dir`. An option that the kernel does not know is left out; what
/// was used is in [`Mount::of`].
pub(crate) fn mount_tmpfs(dir: &Path, size: u64, huge: Huge, mode: u32) -> Result<(), Errno> {
    let base = format!("size={size},nr_inodes={},mode={mode:o}", inodes_for(size));
    let huge = match huge {
        // Kernels without huge pages refuse the option even so.
        Huge::Never => String::new(),
        huge => format!(",huge={}", huge.name()),
    };
    let mut last = Errno::EINVAL;
    for (huge, noswap) in [(&*huge, ",noswap"), (&huge, ""), ("", ",noswap"), ("", "")] {
        let data = format!("{base}{huge}{noswap}");
        match mount(
            Some("tetris"),
            dir,
            Some("tmpfs"),
            FLAGS,
            Some(data.as_str()),
        ) {
            Err(Errno::EINVAL) => last = Errno::EINVAL,
            other => return other,
        }
    }
    Err(last)
}

/// Inodes of a store of `size` bytes.
fn inodes_for(size: u64) -> u64 {
    (size / BYTES_PER_INODE).max(MIN_INODES)
}

/// Reads a line such as
/// `36 35 0:42 / /run/store rw,nodev shared:1 - tmpfs tetris rw,size=4k,huge=always`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let separator = fields.iter().position(|&field| field == b"-")?;
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let list = |field: &[u8]| text(field).split(',').map(str::to_owned).collect();
    Some(Mount {
        point: unescaped_path(fields.get(4)?),
        flags: list(fields.get(5)?),
        kind: text(fields.get(separator + 1)?),
        options: list(fields.get(separator + 3)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_parsed() {
        let line = b"36 35 0:42 / /run/a\\040b rw,nosuid,noexec,relatime shared:1 - tmpfs tetris rw,size=4k,noswap,huge=within_size";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.point, Path::new("/run/a b"));
        assert!(mount.is_tmpfs() && mount.noswap());
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_RELATIME;
        assert_eq!(mount.ms_flags(), flags);
        for line in [&b""[..], b"1 2 3", b"36 35 0:42 / /x rw -"] {
            assert_eq!(parse_line(line), None);
        }
    }

    #[test]
    fn a_path_lies_on_the_nearest_mount() {
        let mount = Mount::of(Path::new("/proc/self")).unwrap().unwrap();
        assert_eq!(mount.kind, "proc");
        assert!(!mount.is_tmpfs());
    }

    #[test]
    fn small_stores_have_inodes_enough() {
        assert_eq!(inodes_for(1 << 20), MIN_INODES);
        assert_eq!(inodes_for(8 << 30), 524_288);
    }
}
