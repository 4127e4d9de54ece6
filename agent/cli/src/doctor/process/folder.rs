//! The folder of a process in `/proc`.

use std::io;
use std::path::{Path, PathBuf};

/// The folder of one process.
#[derive(Debug)]
pub(super) struct ProcessFolder {
    dir: PathBuf,
    pid: u32,
}

/// The facts of `/proc/PID/status` needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// Name of the program.
    pub(super) name: String,
    /// Effective user id.
    pub(super) user: u32,
    /// True if the process has ended and its parent does not know yet.
    pub(super) is_zombie: bool,
}

impl ProcessFolder {
    /// The folder of the process `pid`.
    pub(super) fn of(pid: u32) -> Self {
        Self::at(Path::new("/proc").join(pid.to_string()), pid)
    }

    /// A folder that looks like that of a process.
    pub(super) fn at(dir: PathBuf, pid: u32) -> Self {
        Self { dir, pid }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Path of a file in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Bytes of a file in the folder.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.path(name))
    }

    /// The process's status.
    pub(super) fn status(&self) -> io::Result<Status> {
        parse_status(&String::from_utf8_lossy(&self.read("status")?))
            .ok_or_else(|| io::Error::other("it is no status of a process"))
    }

    /// The file that the process runs, if this user may know.
    pub(super) fn program(&self) -> Option<PathBuf> {
        std::fs::read_link(self.path("exe")).ok()
    }

    /// The path by which this process reaches `path` of that process, whose mounts may be others.
    pub(super) fn seen_from_here(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(inside) => self.path("root").join(inside),
            Err(_) => self.path("cwd").join(path),
        }
    }
}

/// `Uid:` has the real, effective, saved and file system's user.
fn parse_status(table: &str) -> Option<Status> {
    let field = |name: &str| table.lines().find_map(|line| line.strip_prefix(name));
    let user = field("Uid:")?.split_ascii_whitespace().nth(1)?;
    Some(Status {
        name: field("Name:")?.trim().to_owned(),
        user: user.parse().ok()?,
        is_zombie: field("State:").is_some_and(|state| state.trim().starts_with('Z')),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_effective_user_counts() {
        let table = "Name:\tpython3\nState:\tS (sleeping)\nUid:\t1000\t1001\t1000\t1000\n";
        let status = parse_status(table).unwrap();
        assert_eq!((status.name.as_str(), status.user), ("python3", 1001));
        assert!(!status.is_zombie);
        assert!(
            parse_status(&table.replace("S (sleeping)", "Z (zombie)"))
                .unwrap()
                .is_zombie
        );
        for table in ["", "Name:\tx\n", "Uid:\t0\t0\n", "Name:\tx\nUid:\t-1 -1\n"] {
            assert_eq!(parse_status(table), None, "{table}");
        }
    }

    #[test]
    fn paths_of_a_process_are_looked_at_in_its_tree() {
        let folder = ProcessFolder::of(7);
        let seen = |path: &str| folder.seen_from_here(Path::new(path));
        assert_eq!(seen("/run/x"), Path::new("/proc/7/root/run/x"));
        assert_eq!(seen("x"), Path::new("/proc/7/cwd/x"));
    }

    proptest! {
        #[test]
        fn arbitrary_tables_are_read_without_panic(table: String) {
            let _status = parse_status(&table);
            let _status = parse_status(&format!("Name:{table}\nUid:{table}"));
        }
    }
}
