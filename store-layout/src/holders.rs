//! Counting who references an object: `/proc/locks` has one line per holder and inode.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::error::IoError;
use crate::scan::ObjectEntry;
use crate::store::Store;

const PROC_LOCKS: &str = "/proc/locks";

/// Number of holders of each file of the node at one moment.
#[derive(Debug, Default)]
pub struct Holders {
    by_file: HashMap<FileKey, u64>,
    /// Write locks: creation locks, and those of reclaimers for a moment.
    writers: HashMap<FileKey, u64>,
}

/// Device (major, minor) and inode.
type FileKey = ((u64, u64), u64);

impl Holders {
    /// Counts the holders of all files. Holders come and go, and the kernel hands the list out in
    /// pages, so that one who comes or goes meanwhile can make another be missed or counted twice. This
    /// is for showing and for policies; only [`Store::reclaim`](crate::Store::reclaim) decides whether an object may go.
    pub fn read() -> Result<Self, IoError> {
        let failed = |what, error| IoError::new(what, PROC_LOCKS, error);
        let mut file =
            BufReader::new(File::open(PROC_LOCKS).map_err(|error| failed("open", error))?);
        let mut holders = Self::default();
        let mut line = String::new();
        loop {
            line.clear();
            if file
                .read_line(&mut line)
                .map_err(|error| failed("read", error))?
                == 0
            {
                return Ok(holders);
            }
            match parse_lock(&line) {
                Some((Access::Read, key)) => *holders.by_file.entry(key).or_default() += 1,
                Some((Access::Write, key)) => *holders.writers.entry(key).or_default() += 1,
                None => {}
            }
        }
    }

    /// Processes that map the object and that this process can see, by their identifiers: those of its own PID
    /// namespace, and all of them only with the right to look (proc(5), `/proc/pid/maps`). Locks do not say who
    /// holds them.
    pub fn processes(object: &ObjectEntry) -> Vec<u32> {
        let (major, minor) = object.device;
        let place = format!(" {major:02x}:{minor:02x} {} ", object.inode);
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut processes: Vec<u32> = all
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid: &u32| {
                let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
                maps.is_ok_and(|maps| maps.lines().any(|line| line.contains(&place)))
            })
            .collect();
        processes.sort_unstable();
        processes
    }

    /// Number of creation locks of `store` that are held: about as many files are being read, or tensors
    /// derived. 0 where the locks' file cannot be looked at.
    pub fn creation_locks(&self, store: &Store) -> u64 {
        let key = store.locks_file();
        key.and_then(|key| self.writers.get(&key))
            .copied()
            .unwrap_or(0)
    }

    /// Mappings and handles that reference `object`. A forked child shares its parent's.
    pub fn of(&self, object: &ObjectEntry) -> u64 {
        let key = (object.device, object.inode);
        self.by_file.get(&key).copied().unwrap_or(0)
    }
}

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// `1: OFDLCK ADVISORY  READ -1 00:2a:12345 0 EOF`, device numbers in hexadecimal (proc_locks(5)).
/// Lines with `->` are waiters; locks of a store never wait.
fn parse_lock(line: &str) -> Option<(Access, FileKey)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (kind, _advisory, access, _pid, place) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let access = match access {
        "READ" => Access::Read,
        "WRITE" => Access::Write,
        _ => return None,
    };
    if kind != "OFDLCK" {
        return None;
    }
    let mut place = place.split(':');
    let major = u64::from_str_radix(place.next()?, 16).ok()?;
    let minor = u64::from_str_radix(place.next()?, 16).ok()?;
    let inode = place.next()?.parse().ok()?;
    Some((access, ((major, minor), inode)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_of_open_file_descriptions_count() {
        let key = ((0, 0x2a), 12345);
        let read = "12: OFDLCK ADVISORY  READ -1 00:2a:12345 0 EOF";
        assert_eq!(parse_lock(read), Some((Access::Read, key)));
        let write = "1: OFDLCK ADVISORY  WRITE -1 00:2a:12345 7 7";
        assert_eq!(parse_lock(write), Some((Access::Write, key)));
        for line in [
            "2: FLOCK  ADVISORY  READ 77 00:2a:12345 0 EOF",
            "3: -> OFDLCK ADVISORY READ -1 00:2a:1 0 EOF",
            "",
            "4: OFDLCK",
        ] {
            assert_eq!(parse_lock(line), None, "{line}");
        }
    }
}
