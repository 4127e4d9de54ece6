//! Memory that a container is charged for.

use std::path::{Path, PathBuf};

/// The memory cgroup of a container, of either version.
pub struct MemoryCgroup {
    dir: PathBuf,
    unified: bool,
}

impl MemoryCgroup {
    /// Of a process, as the host numbers it.
    pub fn of(pid: u32) -> Self {
        let lines = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let of = |controller: &str| {
            lines.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers
                    .split(',')
                    .any(|name| name == controller)
                    .then(|| path.to_owned())
            })
        };
        let below = |root: &str, path: String| Path::new(root).join(path.trim_start_matches('/'));
        match of("memory") {
            Some(path) => Self {
                dir: below("/sys/fs/cgroup/memory", path),
                unified: false,
            },
            None => Self {
                dir: below("/sys/fs/cgroup", of("").unwrap()),
                unified: true,
            },
        }
    }

    /// The most bytes it was ever charged for. Kernels before 5.19 do not tell that of the second version.
    pub fn peak(&self) -> Option<u64> {
        self.read(if self.unified {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        })
    }

    /// Bytes it is charged for now.
    pub fn usage(&self) -> u64 {
        let name = if self.unified {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        };
        self.read(name).unwrap()
    }

    fn read(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.dir.join(name)).ok()?;
        Some(text.trim().parse().unwrap())
    }
}
