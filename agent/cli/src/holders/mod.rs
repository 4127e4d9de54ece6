//! Processes that hold objects of a store, with their user and their pod or container.
//!
//! The kernel counts references without a process (`/proc/locks` gives open-file-description locks no
//! pid), so the processes are found by their mappings and descriptors. This process sees those of its
//! own PID namespace, and looks into those of other users only with the right to (`CAP_SYS_PTRACE`);
//! the others are counted. The result is for people: only a reclaim decides if an object may go.

mod cgroup;
mod pod_names;
mod process;
mod scan;

pub use cgroup::{Container, Pod};
pub use process::mapped_files;
pub use scan::{
    HolderProcess, HolderProcesses, LoadingProcess, ProcessInfo, SCAN_LIMIT, loading_processes,
    processes_of,
};
