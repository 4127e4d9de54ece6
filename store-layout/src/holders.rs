//! Number of holders of each object, from `/proc/locks`: one line per lock.
//!
//! For counts that people and metrics see. Decisions ask the object ([`Store::is_held`]): the kernel makes the
//! list anew from its begin for every page of text, under a lock that every taker of a lock needs, and all
//! processes of the machine have their locks in it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

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
    /// True if the list was read to its end.
    complete: bool,
}

/// Device (major, minor) and inode.
type FileKey = ((u64, u64), u64);

impl Holders {
    /// Most lines of `/proc/locks` that are read. The time grows with the square of their number: about a
    /// tenth of a second for these, and more than a minute for ten times as many (Linux 6.18).
    pub const MAX_LINES: usize = 40_000;

    /// Counts the holders of all files. Holders come and go, and the kernel hands the list out in
    /// pages, so that one who comes or goes meanwhile can make another be missed or counted twice. Of more than
    /// [`Holders::MAX_LINES`] locks the rest is left out: [`Holders::is_complete`].
    ///
    /// # Errors
    /// When `/proc/locks` cannot be read.
    pub fn read() -> Result<Self, IoError> {
        let failed = |what, error| IoError::new(what, PROC_LOCKS, error);
        let file = File::open(PROC_LOCKS).map_err(|error| failed("open", error))?;
        Self::of_lines(BufReader::new(file), Self::MAX_LINES).map_err(|error| failed("read", error))
    }

    /// Counts at most `most` lines.
    fn of_lines(mut lines: impl BufRead, most: usize) -> io::Result<Self> {
        let mut holders = Self::default();
        let mut line = String::new();
        for number in 0.. {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                holders.complete = true;
                break;
            }
            if number == most {
                break;
            }
            match parse_lock(&line) {
                Some((Access::Read, key)) => *holders.by_file.entry(key).or_default() += 1,
                Some((Access::Write, key)) => *holders.writers.entry(key).or_default() += 1,
                None => {}
            }
        }
        Ok(holders)
    }

    /// Returns true if all locks of the node were counted. If not, each count is the least that it can be.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Processes that map the object and that this process can see, by their identifiers: those of its PID
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
        self.of_file(object.device, object.inode)
    }

    /// As [`Holders::of`], of the file with this inode number on the device with these numbers (major, minor).
    pub fn of_file(&self, device: (u64, u64), inode: u64) -> u64 {
        self.by_file.get(&(device, inode)).copied().unwrap_or(0)
    }
}

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// `1: OFDLCK ADVISORY  READ -1 00:2a:12345 0 EOF`, device numbers in hexadecimal (proc_locks(5)).
/// Lines with `->` are waiters; locks of a store never wait. A reference is on all bytes (LAYOUT.md 4):
/// read locks on parts of a file are no holders.
fn parse_lock(line: &str) -> Option<(Access, FileKey)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (kind, _advisory, access, _pid, place) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let bytes = (fields.next()?, fields.next()?);
    let access = match access {
        "READ" if bytes == ("0", "EOF") => Access::Read,
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
            "4: OFDLCK ADVISORY  READ -1 00:2a:12345 0 0",
            "5: POSIX  ADVISORY  READ 77 00:2a:12345 0 EOF",
            "",
            "6: OFDLCK",
        ] {
            assert_eq!(parse_lock(line), None, "{line}");
        }
    }
    /// A list without an end, as far as its reader can tell.
    struct Endless {
        line: &'static [u8],
        handed_out: usize,
    }

    impl io::Read for Endless {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.handed_out += 1;
            let len = bytes.len().min(self.line.len());
            bytes[..len].copy_from_slice(&self.line[..len]);
            Ok(len)
        }
    }

    #[test]
    fn a_list_is_read_to_a_bound_and_says_so() {
        let line = b"1: OFDLCK ADVISORY  READ -1 00:2a:12345 0 EOF\n";
        let mut endless = Endless {
            line,
            handed_out: 0,
        };
        let lines = BufReader::with_capacity(line.len(), &mut endless);
        let holders = Holders::of_lines(lines, 1_000).unwrap();
        assert!(!holders.is_complete());
        assert_eq!(holders.of_file((0, 0x2a), 12345), 1_000);
        assert_eq!(
            endless.handed_out, 1_001,
            "lines that the kernel had to make"
        );
        let all = line.repeat(1_000);
        let holders = Holders::of_lines(&all[..], 1_000).unwrap();
        assert!(holders.is_complete());
        assert_eq!(holders.of_file((0, 0x2a), 12345), 1_000);
        assert!(!Holders::default().is_complete());
    }
}
