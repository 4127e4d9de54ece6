//! CPU quotas of processes, by cgroups: version 2, or the controller `cpu` of version 1.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const CGROUPS: &str = "/sys/fs/cgroup";
/// Short, so that a request is not held up for long where the quota is used up.
const PERIOD_US: u64 = 10_000;

/// A cgroup for processes with quotas, each in a separate one. It is removed when this is dropped, after
/// the processes.
#[derive(Debug)]
pub struct Quotas {
    folder: PathBuf,
    is_version_2: bool,
}

impl Quotas {
    pub fn new() -> Result<Self> {
        let root = Path::new(CGROUPS);
        let is_version_2 = root.join("cgroup.controllers").exists();
        let root = if is_version_2 {
            root.to_owned()
        } else {
            root.join("cpu")
        };
        let folder = root.join(format!("tetris-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| {
            format!(
                "cannot create the cgroup {}: instances have no quotas",
                folder.display()
            )
        })?;
        let this = Self {
            folder,
            is_version_2,
        };
        if is_version_2 {
            for of in [&root, &this.folder] {
                write(&of.join("cgroup.subtree_control"), "+cpu")?;
            }
        }
        Ok(this)
    }

    /// Gives a process, with all its threads, so many CPUs.
    pub fn limit(&self, pid: u32, cpus: f64) -> Result<()> {
        let folder = self.folder.join(pid.to_string());
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let quota_us = (cpus * PERIOD_US as f64) as u64;
        if self.is_version_2 {
            write(&folder.join("cpu.max"), &format!("{quota_us} {PERIOD_US}"))?;
        } else {
            write(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
            write(&folder.join("cpu.cfs_quota_us"), &quota_us.to_string())?;
        }
        write(&folder.join("cgroup.procs"), &pid.to_string())
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for folder in folders
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
        {
            drop(fs::remove_dir(folder));
        }
        drop(fs::remove_dir(&self.folder));
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Err(error) = fs::write(path, text) {
        bail!("cannot write `{text}` to {}: {error}", path.display());
    }
    Ok(())
}
