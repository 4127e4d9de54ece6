//! Counting who references an object: `/proc/locks` has one line per holder and inode.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use nix::sys::stat::{fstat, major, minor};

use crate::error::IoError;
use crate::scan::ObjectEntry;
use crate::store::{Folder, Store};

const PROC_LOCKS: &str = "/proc/locks";

/// How many holders each object of a store had at one moment.
#[derive(Debug, Default)]
pub struct Holders {
    by_inode: HashMap<u64, u64>,
}

impl Store {
    /// Counts the holders of all objects. Holders come and go, and the kernel hands the list out in
    /// pages, so that one who comes or goes meanwhile can make another be missed or counted twice. This
    /// is for showing and for policies; only [`Store::reclaim`] decides whether an object may go.
    pub fn holders(&self) -> Result<Holders, IoError> {
        let stat = fstat(self.folder(Folder::Objects))
            .map_err(|error| IoError::new("stat", self.root(), error))?;
        let device = (major(stat.st_dev), minor(stat.st_dev));
        let file =
            File::open(PROC_LOCKS).map_err(|error| IoError::new("open", PROC_LOCKS, error))?;
        let mut by_inode = HashMap::new();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| IoError::new("read", PROC_LOCKS, error))?;
            if let Some((found, inode)) = parse_read_lock(&line)
                && found == device
            {
                *by_inode.entry(inode).or_default() += 1;
            }
        }
        Ok(Holders { by_inode })
    }
}

impl Holders {
    /// Mappings and handles that reference `object`. A forked child shares its parent's.
    pub fn of(&self, object: &ObjectEntry) -> u64 {
        self.by_inode.get(&object.inode).copied().unwrap_or(0)
    }
}

/// `1: OFDLCK ADVISORY  READ -1 00:2a:12345 0 EOF`, device numbers in hexadecimal (proc_locks(5)).
/// Lines with `->` are waiters; object locks never wait.
fn parse_read_lock(line: &str) -> Option<((u64, u64), u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (kind, _advisory, access, _pid, place) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    if kind != "OFDLCK" || access != "READ" {
        return None;
    }
    let mut place = place.split(':');
    let major = u64::from_str_radix(place.next()?, 16).ok()?;
    let minor = u64::from_str_radix(place.next()?, 16).ok()?;
    let inode = place.next()?.parse().ok()?;
    Some(((major, minor), inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_read_locks_of_open_file_descriptions_count() {
        let read = "12: OFDLCK ADVISORY  READ -1 00:2a:12345 0 EOF";
        assert_eq!(parse_read_lock(read), Some(((0, 0x2a), 12345)));
        for line in [
            "1: OFDLCK ADVISORY  WRITE -1 00:2a:12345 0 EOF",
            "2: FLOCK  ADVISORY  READ 77 00:2a:12345 0 EOF",
            "3: -> OFDLCK ADVISORY READ -1 00:2a:1 0 EOF",
            "",
            "4: OFDLCK",
        ] {
            assert_eq!(parse_read_lock(line), None, "{line}");
        }
    }
}
