//! Memory probe of an instance, independent of its owner.

use crate::cgroup::Cgroup;
use crate::processes;

/// Source of an instance's memory use.
#[derive(Clone, Debug)]
pub(crate) enum MemoryProbe {
    /// Its cgroup.
    Cgroup(std::sync::Arc<Cgroup>),
    /// Processes of its process group.
    Group(i32),
}

impl MemoryProbe {
    /// Returns its private memory at this moment, in bytes.
    pub(crate) fn own_bytes(&self) -> u64 {
        match self {
            // The cgroup lives as long as the probe; a failed read may succeed next time.
            Self::Cgroup(cgroup) => cgroup.memory().map_or(0, |memory| memory.total()),
            Self::Group(group) => processes::own_bytes(&processes::of_group(*group)),
        }
    }

    /// Number of its processes that the OOM killer ended; 0 without a cgroup.
    pub(crate) fn oom_kills(&self) -> u64 {
        match self {
            Self::Cgroup(cgroup) => cgroup.oom_kills(),
            Self::Group(_) => 0,
        }
    }
}
