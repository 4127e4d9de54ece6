//! A memory-limited cgroup, version 1 or 2, removed when the value is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::system::machine;

const V1_ROOT: &str = "/sys/fs/cgroup/memory";
const V2_ROOT: &str = "/sys/fs/cgroup";
/// Time limit for the kernel to notice that the group is empty.
const REMOVAL: Duration = Duration::from_secs(5);

/// The cgroup interface of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A cgroup with a limit on memory.
pub struct Cgroup {
    directory: PathBuf,
    version: Version,
}

/// The reason no memory-limited cgroup can be created here; `None` if one can.
pub fn unavailable() -> Option<String> {
    if !machine::is_root() {
        return Some("a cgroup memory limit needs root".into());
    }
    match version() {
        Some(_) => None,
        None => Some("no cgroup memory controller under /sys/fs/cgroup".into()),
    }
}

fn version() -> Option<Version> {
    if Path::new(V1_ROOT).join("memory.limit_in_bytes").exists() {
        return Some(Version::One);
    }
    let controllers = fs::read_to_string(Path::new(V2_ROOT).join("cgroup.controllers")).ok()?;
    controllers
        .split_whitespace()
        .any(|name| name == "memory")
        .then_some(Version::Two)
}

impl Cgroup {
    /// Creates a cgroup of the given name with a limit in bytes.
    pub fn create(name: &str, limit: u64) -> Result<Self> {
        let version = version().ok_or_else(|| {
            Error::Usage("no cgroup memory controller under /sys/fs/cgroup".into())
        })?;
        let root = Path::new(match version {
            Version::One => V1_ROOT,
            Version::Two => V2_ROOT,
        });
        if version == Version::Two {
            // Already enabled under a service manager; an error shows in the limit below.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        let directory = root.join(name);
        fs::create_dir(&directory).map_err(Error::io("create the cgroup", &directory))?;
        let group = Self { directory, version };
        let limits: &[(&str, u64)] = match version {
            Version::One => &[("memory.limit_in_bytes", limit)],
            Version::Two => &[("memory.max", limit), ("memory.swap.max", 0)],
        };
        for (name, value) in limits {
            let path = group.directory.join(name);
            match fs::write(&path, value.to_string()) {
                // A kernel without swap accounting lacks the file, and a machine without swap does
                // not need it.
                Err(_) if *name == "memory.swap.max" && !path.exists() => {}
                result => result.map_err(Error::io("set the limit", &path))?,
            }
        }
        Ok(group)
    }

    /// Path of the file to which a process writes its id to enter the cgroup.
    pub fn procs(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Moves a process into the cgroup.
    pub fn add(&self, pid: u32) -> Result<()> {
        let procs = self.procs();
        fs::write(&procs, pid.to_string()).map_err(Error::io("add a process to", &procs))
    }

    /// Maximum memory ever charged to it, in bytes; `None` if the kernel does not record it.
    pub fn peak(&self) -> Option<u64> {
        let name = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.directory.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Number of its processes that the kernel killed for lack of memory.
    pub fn kills(&self) -> u64 {
        let name = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok());
        count.unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let begin = Instant::now();
        while self.directory.exists() && begin.elapsed() < REMOVAL {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
