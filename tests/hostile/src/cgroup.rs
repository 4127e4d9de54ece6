//! A memory cgroup, of version 2 or 1.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A memory cgroup, removed when dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one for `process` of this test, with a limit of `bytes` and without swap.
    ///
    /// # Errors
    /// The reason that there is none.
    pub fn new(process: &str, bytes: u64) -> Result<Self, String> {
        let cgroup = Self::with_swap(process, bytes)?;
        let swap = cgroup.0.join("memory.swap.max");
        if swap.exists() {
            std::fs::write(&swap, "0").map_err(|error| format!("{}: {error}", swap.display()))?;
        }
        Ok(cgroup)
    }

    /// Makes one for `process` of this test, with a limit of `bytes` and as much swap as the machine has.
    ///
    /// # Errors
    /// The reason that there is none.
    pub fn with_swap(process: &str, bytes: u64) -> Result<Self, String> {
        let (root, file) = root()?;
        let name = format!("tetris-test-{}-{process}", std::process::id());
        let cgroup = Self(root.join(name));
        let failed = |error| format!("cannot make the cgroup {}: {error}", cgroup.0.display());
        std::fs::create_dir(&cgroup.0).map_err(failed)?;
        std::fs::write(cgroup.0.join(file), bytes.to_string()).map_err(failed)?;
        Ok(cgroup)
    }

    /// Directory of the cgroup.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Starts a program in it, with the arguments and all else that `prepare` adds. Its standard input is empty.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(
        &self,
        program: impl AsRef<OsStr>,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Child> {
        // It reads its limits when it starts: the shell waits until it is in its place.
        let mut command = Command::new("sh");
        command.args(["-c", "read place && exec \"$0\" \"$@\""]);
        command.arg(program).stdin(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn()?;
        std::fs::write(self.0.join("cgroup.procs"), child.id().to_string())?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(b"taken\n")?;
        }
        Ok(child)
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
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = groups
        .lines()
        .find_map(|line| line.split_once(":memory:"))
        .map(|(_, path)| path.trim_start_matches('/'))
        .ok_or("there is no memory controller")?;
    let all = unified.join("memory");
    // The own cgroup is the root of what a container sees.
    let root = Some(all.join(path)).filter(|own| own.exists());
    Ok((root.unwrap_or(all), "memory.limit_in_bytes"))
}
