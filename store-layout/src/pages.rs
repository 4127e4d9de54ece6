//! The pages of a store's files: measured, since what a mount was asked for shows little about what it gives.
//!
//! A file is mapped, one byte of each 2 MiB block is read, and `/proc/self/smaps` shows how much of that mapping the kernel
//! mapped by 2 MiB pages. Nothing else has it exactly: `stat` shows the option of the mount, and the counters in
//! `/proc/meminfo` and of cgroups are everybody's.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::access::Access;
use crate::error::{IoError, PublishError};
use crate::mapping::Mapping;
use crate::scan::ObjectEntry;
use crate::store::{ObjectRef, Store};

/// Bytes of a large page.
pub const LARGE_PAGE: u64 = 2 << 20;
/// Length of the file written to see its pages: one segment.
const PROBE: u64 = 2 * LARGE_PAGE;
/// A store with less room than this is not made to hold the probe file as well: a load could miss that room.
const PROBE_ROOM: u64 = 2 * PROBE;
/// Objects that are looked at, the latest first, and blocks of each.
const OBJECTS: usize = 8;
const BLOCKS: u64 = 4;

const SMAPS: &str = "/proc/self/smaps";
const MOUNTINFO: &str = "/proc/self/mountinfo";
/// Absent where the kernel was built without large pages.
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The file that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagesOf {
    /// A file written for the purpose: what objects get that are published now.
    NewFile,
    /// Objects of the store.
    Objects,
}

impl PagesOf {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewFile => "new-file",
            Self::Objects => "objects",
        }
    }
}

/// The pages that some bytes of a store have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    /// The file that was looked at.
    pub of: PagesOf,
    /// Bytes of it that were looked at, in blocks of 2 MiB.
    pub looked_at: u64,
    /// Bytes of these that are mapped by 2 MiB pages.
    pub large: u64,
    /// The reason why not all are.
    pub small_because: Option<SmallPages>,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.large {
            0 => f.write_str("4 KiB")?,
            large if large >= self.looked_at => f.write_str("2 MiB")?,
            large => write!(f, "2 MiB for {}%, else 4 KiB", 100 * large / self.looked_at)?,
        }
        let of = match self.of {
            PagesOf::NewFile => "a file written to see it",
            PagesOf::Objects => "objects of the store",
        };
        write!(f, " (seen in {} MiB of {of})", self.looked_at >> 20)
    }
}

/// The reason for pages of 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SmallPages {
    /// The kernel has none of 2 MiB.
    Kernel,
    /// The kernel is set to give none to any tmpfs.
    Denied,
    /// The mount does not ask for them.
    Mount {
        /// Its option `huge`, if it has one.
        huge: Option<String>,
    },
    /// It lies on another kind of file system.
    NotTmpfs {
        /// Its type.
        found: String,
    },
    /// Nothing of these: memory was in pieces, or objects were published when one of these held.
    Memory,
}

impl SmallPages {
    /// Its name in documents and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Denied => "shmem-enabled",
            Self::Mount { .. } => "mount-option",
            Self::NotTmpfs { .. } => "file-system",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for SmallPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => write!(f, "this kernel has no transparent large pages ({THP})"),
            Self::Denied => write!(
                f,
                "`{THP}/shmem_enabled` is `deny`: write `never` to it, which leaves the choice to each mount"
            ),
            Self::Mount { huge: None } => f.write_str(
                "the tmpfs is mounted without `huge=within_size`, as /dev/shm is by default",
            ),
            Self::Mount { huge: Some(found) } => write!(
                f,
                "the tmpfs is mounted with `huge={found}`, expected `huge=within_size`"
            ),
            Self::NotTmpfs { found } => write!(f, "the file system is {found}, expected tmpfs"),
            Self::Memory => f.write_str(
                "the kernel had no unbroken 2 MiB of memory when it was written, or the mount did not ask for them then",
            ),
        }
    }
}

impl Store {
    /// The pages that an object gets that is published now: of a file written as objects are, and has no name.
    /// `None` when the store has hardly any room left.
    ///
    /// # Errors
    /// As [`Store::stage`], and when the kernel does not say which pages a mapping has.
    pub fn probe_pages(&self) -> Result<Option<Pages>, PublishError> {
        if self.usage()?.free < PROBE_ROOM {
            return Ok(None);
        }
        let staging = self.stage(PROBE)?;
        let zeros = vec![0; PROBE as usize];
        let mut writer = staging.segment(0);
        writer.write(&zeros)?;
        let _digest = writer.finish();
        let mapping = Mapping::of_staging(staging.file(), PROBE as usize)
            .map_err(|error| IoError::new("map", self.root(), error))?;
        let (looked_at, large) = looked_at(&mapping)?;
        Ok(Some(self.pages(PagesOf::NewFile, looked_at, large)))
    }

    /// The pages of the latest of these objects that have a whole large page. It maps them for a moment, and writes nothing.
    /// `None` when there are none.
    ///
    /// # Errors
    /// When the kernel does not say which pages a mapping has.
    pub fn object_pages(&self, objects: &[ObjectEntry]) -> Result<Option<Pages>, IoError> {
        let large_enough = |entry: &&ObjectEntry| entry.object.len >= LARGE_PAGE;
        let mut latest: Vec<&ObjectEntry> = objects.iter().filter(large_enough).collect();
        latest.sort_by_key(|entry| std::cmp::Reverse(entry.published));
        let (mut all, mut large) = (0, 0);
        for entry in latest.into_iter().take(OBJECTS) {
            let (of_it, large_of_it) = self.object_blocks(&entry.object)?;
            all += of_it;
            large += large_of_it;
        }
        Ok((all > 0).then(|| self.pages(PagesOf::Objects, all, large)))
    }

    fn object_blocks(&self, object: &ObjectRef) -> Result<(u64, u64), IoError> {
        match self.map(object, Access::ReadOnly) {
            Ok(Some(mapping)) => looked_at(&mapping),
            // It has gone meanwhile, or is not what its name promises, which `verify` finds.
            Ok(None) | Err(_) => Ok((0, 0)),
        }
    }

    fn pages(&self, of: PagesOf, looked_at: u64, large: u64) -> Pages {
        Pages {
            of,
            looked_at,
            large,
            small_because: (large < looked_at).then(|| self.why_small()),
        }
    }

    /// The reason why a file of this store would have pages of 4 KiB, as far as the system's settings say; else
    /// [`SmallPages::Memory`].
    fn why_small(&self) -> SmallPages {
        let (kind, huge) = self.mount_option_huge().unwrap_or_default();
        let policy = std::fs::read_to_string(format!("{THP}/shmem_enabled"));
        let policy = policy.unwrap_or_default();
        match huge.as_deref() {
            _ if !kind.is_empty() && kind != "tmpfs" => SmallPages::NotTmpfs { found: kind },
            _ if policy.is_empty() => SmallPages::Kernel,
            _ if policy.contains("[deny]") => SmallPages::Denied,
            Some("always" | "within_size") => SmallPages::Memory,
            _ if policy.contains("[force]") => SmallPages::Memory,
            _ => SmallPages::Mount { huge },
        }
    }

    /// The option `huge` of the file system that the store lies on, for those who cannot see what it gives: `None` without one.
    pub fn huge_option(&self) -> Option<String> {
        self.mount_option_huge()?.1
    }

    /// Type of the file system, and its option `huge`. All its mounts have the same options, so any of them will do.
    fn mount_option_huge(&self) -> Option<(String, Option<String>)> {
        let table = std::fs::read_to_string(MOUNTINFO).ok()?;
        let (major, minor) = self.device();
        let device = format!("{major}:{minor}");
        let of_device = |line: &&str| line.split(' ').nth(2) == Some(&device);
        let (_, tail) = table.lines().find(of_device)?.split_once(" - ")?;
        let mut fields = tail.split(' ');
        let kind = fields.next()?.to_owned();
        let mut options = fields.nth(1)?.split(',');
        let huge = options.find_map(|option| option.strip_prefix("huge="));
        Some((kind, huge.map(str::to_owned)))
    }
}

/// Reads a byte of each of the first blocks. Returns how many bytes these have, and how many of them are mapped by large pages.
fn looked_at(mapping: &Mapping) -> Result<(u64, u64), IoError> {
    let blocks = (mapping.len() as u64 / LARGE_PAGE).min(BLOCKS);
    for block in 0..blocks {
        // The byte itself: an optimizer would leave out a read of which only the address is used.
        std::hint::black_box(mapping.get((block * LARGE_PAGE) as usize).copied());
    }
    let failed = |action| move |error| IoError::new(action, SMAPS, error);
    let smaps = BufReader::new(File::open(SMAPS).map_err(failed("open"))?);
    let large = large_bytes(smaps, mapping.as_ptr().addr() as u64).map_err(failed("read"))?;
    let all = blocks * LARGE_PAGE;
    Ok((all, large.min(all)))
}

/// The bytes mapped by large pages of the mapping at `address`. One that lies elsewhere than at a multiple of 2 MiB has none.
fn large_bytes(smaps: impl BufRead, address: u64) -> std::io::Result<u64> {
    let (mut inside, mut found, mut large) = (false, false, 0);
    for line in smaps.lines() {
        let line = line?;
        let (name, value) = line.split_once(' ').unwrap_or((&line, ""));
        if let Some(range) = parse_range(name) {
            if found {
                break;
            }
            inside = range.contains(&address);
            found |= inside;
        } else if inside && matches!(name, "ShmemPmdMapped:" | "FilePmdMapped:") {
            let kib = value.trim().trim_end_matches(" kB").parse::<u64>();
            large += kib.unwrap_or_default() << 10;
        }
    }
    if found {
        return Ok(large);
    }
    let message = format!("no mapping at {address:#x}");
    Err(std::io::Error::new(std::io::ErrorKind::NotFound, message))
}

fn parse_range(text: &str) -> Option<std::ops::Range<u64>> {
    let (from, to) = text.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(hex(from)?..hex(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::CreateOptions;

    const SMAPS_TEXT: &str = "\
7f0000000000-7f0000400000 r--s 00000000 00:2a 3  /run/tetris/store/objects-v1/x
Size:               4096 kB
ShmemPmdMapped:     2048 kB
FilePmdMapped:         0 kB
VmFlags: rd mr me ms sd
7f0000400000-7f0000800000 r--s 00000000 00:2a 4  /run/tetris/store/objects-v1/y
ShmemPmdMapped:     4096 kB
";

    #[test]
    fn large_pages_are_counted_of_one_mapping_alone() {
        let of = |address| large_bytes(SMAPS_TEXT.as_bytes(), address);
        assert_eq!(of(0x7f00_0000_0000).unwrap(), LARGE_PAGE);
        assert_eq!(of(0x7f00_0040_0000).unwrap(), 2 * LARGE_PAGE);
        assert!(of(0x1000).is_err());
    }

    #[test]
    fn a_directory_of_dev_shm_says_why_its_pages_are_small() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let Some(pages) = store.probe_pages().unwrap() else {
            eprintln!("SKIPPED: /dev/shm is full");
            return;
        };
        assert_eq!((pages.of, pages.looked_at), (PagesOf::NewFile, PROBE));
        assert_eq!(pages.small_because.is_none(), pages.large == PROBE);
        if store.huge_option().is_none() && pages.large == 0 {
            let reason = pages.small_because.clone().unwrap();
            assert!(!matches!(reason, SmallPages::Memory), "{reason}");
        }
        // It leaves nothing, and an object shows the same.
        assert!(store.objects().unwrap().objects.is_empty());
        assert_eq!(store.object_pages(&[]).unwrap(), None);
        let small = store.publish(&[1; 4096], Access::ReadOnly).unwrap();
        let large = vec![1; 2 * LARGE_PAGE as usize + 5];
        let large = store.publish(&large, Access::ReadOnly).unwrap();
        let listing = store.objects().unwrap().objects;
        let of_objects = store.object_pages(&listing).unwrap().unwrap();
        assert_eq!(of_objects.looked_at, 2 * LARGE_PAGE);
        assert_eq!(of_objects.large == 0, pages.large == 0);
        drop((small, large));
    }

    #[test]
    fn pages_are_said_as_they_are() {
        let pages = |large| Pages {
            of: PagesOf::Objects,
            looked_at: 4 * LARGE_PAGE,
            large: large * LARGE_PAGE,
            small_because: None,
        };
        let said = |large| pages(large).to_string();
        assert_eq!(said(4), "2 MiB (seen in 8 MiB of objects of the store)");
        assert!(said(1).starts_with("2 MiB for 25%, else 4 KiB"));
        assert!(said(0).starts_with("4 KiB"));
    }
}
