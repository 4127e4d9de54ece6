//! Cgroups of the profiler, versions 1 and 2: CPU quota, cpuset and memory limit of one instance.

mod detect;
mod error;
mod memory;
mod name;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use error::{read, write};

pub(crate) use detect::Hierarchy;
pub use error::CgroupError;
pub(crate) use memory::MemoryUse;
pub(crate) use name::sweep;

use crate::cpus::CpuList;

/// Period of CPU quotas in microseconds, as in Kubernetes.
const PERIOD_US: u64 = 100_000;
/// Time that killed processes must exit.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Limits of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// CPU time, in millicores.
    pub(crate) cpu_millis: u64,
    /// Allowed CPUs.
    pub(crate) cpus: CpuList,
    /// Memory limit in bytes, if any.
    pub(crate) memory_bytes: Option<u64>,
}

/// A cgroup. Dropping it kills its processes and removes it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    hierarchy: Hierarchy,
    name: String,
}

impl Cgroup {
    /// Creates a cgroup in `hierarchy`.
    pub(crate) fn create(hierarchy: &Hierarchy, limits: &Limits) -> Result<Self, CgroupError> {
        let group = Self {
            hierarchy: hierarchy.clone(),
            name: name::unique(),
        };
        for dir in group.dirs() {
            std::fs::create_dir(&dir)
                .map_err(|error| CgroupError::io("create the cgroup", &dir, error))?;
        }
        group.limit(limits)?;
        Ok(group)
    }

    fn dirs(&self) -> Vec<PathBuf> {
        let parents = self.hierarchy.parents().into_iter();
        parents.map(|parent| parent.join(&self.name)).collect()
    }

    /// Returns the directory that counts processes and memory.
    fn memory_dir(&self) -> PathBuf {
        match &self.hierarchy {
            Hierarchy::V1 { memory, .. } => memory.join(&self.name),
            Hierarchy::V2 { parent, .. } => parent.join(&self.name),
        }
    }

    /// Returns true if the cgroup restricts its processes to its CPUs.
    pub(crate) const fn has_cpuset(&self) -> bool {
        match self.hierarchy {
            Hierarchy::V1 { .. } => true,
            Hierarchy::V2 { cpuset, .. } => cpuset,
        }
    }

    fn limit(&self, limits: &Limits) -> Result<(), CgroupError> {
        let quota = (limits.cpu_millis.saturating_mul(PERIOD_US) / 1_000).to_string();
        let cpus = limits.cpus.to_string();
        match &self.hierarchy {
            Hierarchy::V1 {
                cpu,
                cpuset,
                memory,
            } => {
                let (cpu, set) = (cpu.join(&self.name), cpuset.join(&self.name));
                write(&cpu.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&cpu.join("cpu.cfs_quota_us"), &quota)?;
                let nodes = read(&cpuset.join("cpuset.effective_mems"))?;
                write(&set.join("cpuset.mems"), nodes.trim())?;
                write(&set.join("cpuset.cpus"), &cpus)?;
                limit_v1_memory(&memory.join(&self.name), limits.memory_bytes)
            }
            Hierarchy::V2 { parent, cpuset } => {
                let dir = parent.join(&self.name);
                write(&dir.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
                if *cpuset {
                    write(&dir.join("cpuset.cpus"), &cpus)?;
                }
                limit_v2_memory(&dir, limits.memory_bytes)
            }
        }
    }

    /// Moves a process into the cgroup, with its threads and later children.
    pub(crate) fn add(&self, process: u32) -> Result<(), CgroupError> {
        let dirs = self.dirs().into_iter();
        dirs.map(|dir| dir.join("cgroup.procs"))
            .try_for_each(|file| write(&file, &process.to_string()))
    }

    /// Returns its processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes_in(&self.memory_dir())
    }

    /// Returns its current memory.
    pub(crate) fn memory(&self) -> Result<MemoryUse, CgroupError> {
        match &self.hierarchy {
            Hierarchy::V1 { .. } => MemoryUse::v1(&self.memory_dir()),
            Hierarchy::V2 { .. } => MemoryUse::v2(&self.memory_dir()),
        }
    }

    /// Number of its processes that the OOM killer ended.
    pub(crate) fn oom_kills(&self) -> u64 {
        let file = match &self.hierarchy {
            Hierarchy::V1 { .. } => "memory.oom_control",
            Hierarchy::V2 { .. } => "memory.events",
        };
        let text = read(&self.memory_dir().join(file)).unwrap_or_default();
        memory::value(&text, "oom_kill").unwrap_or(0)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for dir in self.dirs() {
            remove(&dir);
        }
    }
}

/// Sets the memory limit, without swap, which would hide the memory that an instance needs.
fn limit_v1_memory(dir: &Path, bytes: Option<u64>) -> Result<(), CgroupError> {
    let Some(bytes) = bytes else { return Ok(()) };
    write(&dir.join("memory.limit_in_bytes"), &bytes.to_string())?;
    let with_swap = dir.join("memory.memsw.limit_in_bytes");
    if with_swap.exists() {
        write(&with_swap, &bytes.to_string())?;
    }
    Ok(())
}

fn limit_v2_memory(dir: &Path, bytes: Option<u64>) -> Result<(), CgroupError> {
    let Some(bytes) = bytes else { return Ok(()) };
    write(&dir.join("memory.max"), &bytes.to_string())?;
    let swap = dir.join("memory.swap.max");
    if swap.exists() {
        write(&swap, "0")?;
    }
    Ok(())
}

fn processes_in(dir: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

/// Kills the processes of a cgroup and removes it. [`sweep`] removes it later if that fails.
fn remove(dir: &Path) {
    let deadline = Instant::now() + GONE_WITHIN;
    while dir.exists() {
        for process in processes_in(dir) {
            if let Ok(process) = i32::try_from(process) {
                // It may have exited by itself.
                let _gone = kill(Pid::from_raw(process), Signal::SIGKILL);
            }
        }
        match std::fs::remove_dir(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                if Instant::now() > deadline {
                    tracing::warn!(path = %dir.display(), %error, "cannot remove the cgroup");
                    return;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            _ => return,
        }
    }
}
