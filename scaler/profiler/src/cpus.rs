//! Lists of CPUs, and CPU affinity of processes.

use std::fmt;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use thiserror::Error;

/// Numbers of CPUs, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(Vec<usize>);

/// The reason an instance cannot have its CPUs.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CpuError {
    /// More CPUs than this process may use.
    #[error(
        "a configuration takes {wanted} CPUs, expected at most the {found} of this process; leave it out of --cpus"
    )]
    TooMany {
        /// Number of whole CPUs of the configuration.
        wanted: u64,
        /// Number of CPUs of this process.
        found: usize,
    },
    /// A failed system call.
    #[error("cannot {action} the CPUs of process {process}: {source}")]
    Affinity {
        /// Either "read" or "set".
        action: &'static str,
        /// Process id.
        process: u32,
        /// Cause.
        #[source]
        source: nix::Error,
    },
}

impl CpuList {
    /// Returns the CPUs that this process may use.
    pub(crate) fn of_this_process() -> Result<Self, CpuError> {
        let set = sched_getaffinity(Pid::from_raw(0)).map_err(|source| CpuError::Affinity {
            action: "read",
            process: std::process::id(),
            source,
        })?;
        let all = 0..CpuSet::count();
        Ok(Self(
            all.filter(|&cpu| set.is_set(cpu).unwrap_or(false))
                .collect(),
        ))
    }

    /// Returns the last `count` CPUs: the first ones handle the machine's interrupts.
    pub(crate) fn take(&self, count: u64) -> Result<Self, CpuError> {
        let too_many = CpuError::TooMany {
            wanted: count,
            found: self.0.len(),
        };
        let first = usize::try_from(count)
            .ok()
            .and_then(|count| self.0.len().checked_sub(count));
        let taken = first.and_then(|first| self.0.get(first..));
        taken.map(|taken| Self(taken.to_vec())).ok_or(too_many)
    }

    /// Number of CPUs.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Binds a single-threaded process to the CPUs.
    pub(crate) fn bind(&self, process: u32) -> Result<(), CpuError> {
        let bound = || {
            let mut set = CpuSet::new();
            self.0.iter().try_for_each(|&cpu| set.set(cpu))?;
            let process = i32::try_from(process).map_err(|_| nix::Error::ESRCH)?;
            sched_setaffinity(Pid::from_raw(process), &set)
        };
        bound().map_err(|source| CpuError::Affinity {
            action: "set",
            process,
            source,
        })
    }
}

impl fmt::Display for CpuList {
    /// Formats the list as the kernel does, without ranges: `0,1,2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, cpu) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cpus_are_taken() {
        let all = CpuList(vec![0, 1, 4, 5]);
        assert_eq!(all.take(2).unwrap().to_string(), "4,5");
        assert_eq!(all.take(4).unwrap(), all);
        let error = all.take(5).unwrap_err().to_string();
        assert!(
            error.contains("takes 5 CPUs, expected at most the 4"),
            "{error}"
        );
        assert!(CpuList::of_this_process().unwrap().len() > 0);
    }
}
