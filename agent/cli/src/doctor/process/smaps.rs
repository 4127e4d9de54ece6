//! Regions of a process's memory, from `smaps` (proc_pid_smaps(5)).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Appended by the kernel to the path of a file without a name.
const DELETED: &[u8] = b" (deleted)";

/// One region. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Region {
    /// Length of the region.
    pub(super) len: u64,
    /// Major and minor number of the file's device, and
    pub(super) device: (u64, u64),
    /// its inode number; 0 without a file.
    pub(super) inode: u64,
    /// Path of the file, or a name such as `[heap]`; empty without either.
    pub(super) path: PathBuf,
    /// Pages that are mapped.
    pub(super) resident: u64,
    /// The same, each page divided by the number of its mappings.
    pub(super) proportional: u64,
    /// Pages that belong to the process alone: written ones, of a file's region as well.
    pub(super) anonymous: u64,
    /// Pages that are swapped out.
    pub(super) swapped: u64,
    /// Part mapped by 2 MiB pages.
    pub(super) large: u64,
}

impl Region {
    /// Returns true for a region of a file.
    pub(super) fn has_file(&self) -> bool {
        self.inode != 0
    }

    /// Name of the file.
    pub(super) fn file_name(&self) -> &str {
        let name = self.path.file_name().and_then(OsStr::to_str);
        name.unwrap_or_default()
    }
}

/// Reads the regions. Lines that are of no known form are left out.
pub(super) fn parse(bytes: &[u8]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(region) = parse_head(line) {
            regions.push(region);
        } else if let Some(region) = regions.last_mut() {
            add_field(region, line);
        }
    }
    regions
}

/// `7f2c1d800000-7f2c1da00000 r--s 00000000 00:2a 12    /run/tetris/store/objects-v1/...`.
fn parse_head(line: &[u8]) -> Option<Region> {
    let mut rest = line;
    let mut field = || {
        let end = rest
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(rest.len());
        let (head, tail) = rest.split_at_checked(end)?;
        rest = tail.trim_ascii_start();
        std::str::from_utf8(head)
            .ok()
            .filter(|head| !head.is_empty())
    };
    let (range, _access, _offset, device, inode) =
        (field()?, field()?, field()?, field()?, field()?);
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (begin, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let path = rest.strip_suffix(DELETED).unwrap_or(rest);
    Some(Region {
        len: hex(end)?.checked_sub(hex(begin)?)?,
        device: (hex(major)?, hex(minor)?),
        inode: inode.parse().ok()?,
        path: Path::new(OsStr::from_bytes(path)).to_owned(),
        ..Region::default()
    })
}

/// `Rss:                4096 kB`.
fn add_field(region: &mut Region, line: &[u8]) {
    let Some((name, value)) = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.split_once(':'))
    else {
        return;
    };
    let place = match name {
        "Rss" => &mut region.resident,
        "Pss" => &mut region.proportional,
        "Anonymous" => &mut region.anonymous,
        "Swap" => &mut region.swapped,
        "ShmemPmdMapped" | "FilePmdMapped" => &mut region.large,
        _ => return,
    };
    let kib = value
        .trim()
        .strip_suffix(" kB")
        .and_then(|kib| kib.parse::<u64>().ok());
    *place = place.saturating_add(kib.unwrap_or(0).saturating_mul(1024));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = b"\
7f0000000000-7f0000400000 r--p 00000000 00:2a 3                          /dev/shm/a b/objects-v1/x (deleted)
Size:               4096 kB
Rss:                2048 kB
Pss:                1024 kB
Anonymous:             8 kB
ShmemPmdMapped:     2048 kB
VmFlags: rd mr me ms sd
7f0000400000-7f0000401000 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             4 kB
Swap:                  8 kB
55d0-55d1 rw-p 00000000 00:00 0                                  [heap]
";

    #[test]
    fn regions_have_their_file_and_their_figures() {
        let regions = parse(TEXT);
        let [object, memory, heap] = regions.as_slice() else {
            panic!("{regions:?}");
        };
        assert_eq!(object.path, Path::new("/dev/shm/a b/objects-v1/x"));
        assert_eq!((object.device, object.inode), ((0, 0x2a), 3));
        let figures = [
            object.len,
            object.resident,
            object.proportional,
            object.anonymous,
            object.large,
        ];
        assert_eq!(figures, [4 << 20, 2 << 20, 1 << 20, 8 << 10, 2 << 20]);
        assert!(!memory.has_file() && memory.path.as_os_str().is_empty());
        assert_eq!((memory.anonymous, memory.swapped), (4096, 8192));
        assert_eq!(heap.file_name(), "[heap]");
    }

    #[test]
    fn figures_before_any_region_and_beyond_all_bounds_are_harmless() {
        let text =
            b"Rss: 5 kB\n0-1 r 0 0:0 0\nRss: 18446744073709551615 kB\nRss: 1 kB\n2-1 r 0 0:0 0\n";
        let regions = parse(text);
        assert_eq!(regions.len(), 1, "an end before the beginning is no region");
        assert_eq!(regions[0].resident, u64::MAX);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _regions = parse(&bytes);
        }

        #[test]
        fn arbitrary_lines_are_read_without_panic(
            lines in prop::collection::vec("[0-9a-f]{0,18}-[0-9a-f]{0,18}( [ -~]{0,10}){0,7}|[A-Za-z]{0,10}: *[0-9]{0,25} kB", 0..20)
        ) {
            let _regions = parse(lines.join("\n").as_bytes());
        }
    }
}
