//! A memory cgroup, of version 2 or 1.

use std::path::{Path, PathBuf};

/// A memory cgroup, removed when dropped.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one with this limit and without swap, or returns the reason that there is none.
    pub fn new(limit: u64) -> Result<Self, String> {
        let (root, file) = root()?;
        let name = format!("tetris-test-{}-gateway", std::process::id());
        let cgroup = Self(root.join(name));
        let failed = |error| format!("cannot make the cgroup {}: {error}", cgroup.0.display());
        std::fs::create_dir(&cgroup.0).map_err(failed)?;
        std::fs::write(cgroup.0.join(file), limit.to_string()).map_err(failed)?;
        let swap = cgroup.0.join("memory.swap.max");
        if swap.exists() {
            std::fs::write(swap, "0").map_err(failed)?;
        }
        Ok(cgroup)
    }

    /// Moves a process into it.
    pub fn take(&self, process: u32) {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _processes_are_left = std::fs::remove_dir(&self.0);
    }
}

/// Folder for cgroups, and the name of the file with a limit.
fn root() -> Result<(PathBuf, &'static str), String> {
    let unified = Path::new("/sys/fs/cgroup");
    let controllers = std::fs::read_to_string(unified.join("cgroup.controllers"));
    if controllers.is_ok_and(|all| all.split_whitespace().any(|name| name == "memory")) {
        std::fs::write(unified.join("cgroup.subtree_control"), "+memory")
            .map_err(|error| format!("cannot have the memory controller: {error}"))?;
        return Ok((unified.to_owned(), "memory.max"));
    }
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own
        .lines()
        .find_map(|line| line.split_once(":memory:"))
        .map(|(_, path)| path.trim_start_matches('/'))
        .ok_or("there is no memory controller")?;
    let all = unified.join("memory");
    // The own cgroup is the root of what a container sees.
    let root = Some(all.join(path)).filter(|own| own.exists());
    Ok((root.unwrap_or(all), "memory.limit_in_bytes"))
}
