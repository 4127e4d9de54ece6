//! Looking at an instance's memory while something else has the instance.

use crate::cgroup::Cgroup;
use crate::processes;

/// Where an instance's memory is read.
#[derive(Clone, Debug)]
pub(crate) enum MemoryProbe {
    /// From its cgroup.
    Cgroup(std::sync::Arc<Cgroup>),
    /// From the processes of its group.
    Group(i32),
}

impl MemoryProbe {
    /// Memory of its own at this moment, in bytes.
    pub(crate) fn own_bytes(&self) -> u64 {
        match self {
            // The cgroup stays as long as the probe; a file that cannot be read now can be read next time.
            Self::Cgroup(cgroup) => cgroup.memory().map_or(0, |memory| memory.total()),
            Self::Group(group) => processes::own_bytes(&processes::of_group(*group)),
        }
    }

    /// How many of its processes were killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        match self {
            Self::Cgroup(cgroup) => cgroup.oom_kills(),
            Self::Group(_) => 0,
        }
    }
}
