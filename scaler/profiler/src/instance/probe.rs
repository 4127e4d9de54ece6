//! Memory probe of an instance, independent of its owner.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cgroup::Cgroup;
use crate::processes::{self, Counters};

/// Interval between two looks for the processes of a group, and at the memory that several share, for which the kernel
/// walks all their page tables.
const LOOK_AT_GROUP_EVERY: Duration = Duration::from_millis(250);

/// Source of an instance's memory use.
#[derive(Clone, Debug)]
pub(crate) enum MemoryProbe {
    /// Its cgroup.
    Cgroup(Arc<Cgroup>),
    /// Processes of its process group.
    Group(Arc<GroupProbe>),
}

/// Processes of a process group, looked for at intervals.
#[derive(Debug)]
pub(crate) struct GroupProbe {
    group: i32,
    last: Mutex<Option<GroupLook>>,
}

/// The last look at a group.
#[derive(Debug)]
struct GroupLook {
    at: Instant,
    processes: Vec<u32>,
    /// Private memory of all of them, in bytes.
    own_bytes: u64,
    /// Last counters, of a process that is alone.
    counters: Counters,
}

impl MemoryProbe {
    /// Returns the probe of a process group.
    pub(crate) fn of_group(group: i32) -> Self {
        Self::Group(Arc::new(GroupProbe {
            group,
            last: Mutex::new(None),
        }))
    }

    /// Returns its private memory at this moment, in bytes.
    pub(crate) fn own_bytes(&self) -> u64 {
        match self {
            // The cgroup lives as long as the probe; a failed read may succeed next time.
            Self::Cgroup(cgroup) => cgroup.memory().map_or(0, |memory| memory.total()),
            Self::Group(group) => group.own_bytes(),
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

impl GroupProbe {
    fn own_bytes(&self) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |look: &GroupLook| look.at.elapsed() >= LOOK_AT_GROUP_EVERY;
        if last.as_ref().is_none_or(is_old) {
            let processes = processes::of_group(self.group);
            let before = last.take().filter(|look| look.processes == processes);
            *last = Some(GroupLook {
                at: Instant::now(),
                own_bytes: processes::own_bytes(&processes),
                counters: before.map(|look| look.counters).unwrap_or_default(),
                processes,
            });
        }
        let Some(look) = last.as_mut() else {
            return 0;
        };
        // Its counters cost nothing, so that short peaks are seen, as of a start that unpacks weights.
        let [only] = look.processes.as_slice() else {
            return look.own_bytes;
        };
        let counters = Counters::of(*only);
        let most = counters.most_since(look.counters);
        look.counters = counters;
        most.max(look.own_bytes)
    }
}
