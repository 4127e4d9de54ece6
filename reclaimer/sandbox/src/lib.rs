//! Sandboxes of the node daemon's processes: a filter of system calls (seccomp(2)) and rules for paths, ports and signals
//! (landlock(7)), which a process lays upon itself before it starts a thread.
//!
//! Nothing takes them away again, and every thread inherits them. So code that a pod's bytes took over has no more than this:
//!
//! | | `broker` | `cluster` | `mirror` |
//! |---|---|---|---|
//! | capabilities | none | none | none |
//! | sockets | Unix | Unix, IPv4, IPv6 | Unix |
//! | TCP (Landlock 4) | none | listens at the ports of the configuration; connects to the API server's, where that is known | none |
//! | reads and writes | stores, learned state, its own socket's directory | its own socket's directory | stores, its own sockets' directories |
//! | reads | configuration | configuration, token, certificates, resolver's files | configuration |
//! | devices | none | none | those of the driver |
//! | makes code at run time | no | no | as the driver does |
//! | signals (Landlock 6), abstract sockets | to itself | to itself | to itself |
//! | starts programs, makes processes or namespaces, mounts, traces, loads code into the kernel, `io_uring` | never | never | never |
//!
//! All of them read `/proc`, random bytes, and what the kernel reports of processors, page sizes, disks and cgroups. A process of
//! another user stays out of reach in `/proc`, as ever (ptrace(2), "Ptrace access mode checking").
//!
//! [`enter`] lays the rules. A kernel that has no Landlock, or none that permits moves between directories (Linux 5.19), gets the
//! filter alone, and [`SandboxStatus`] has the reason. A wrong profile, a missing path and a refused filter are errors.
//!
//! A call that is not permitted fails with EPERM, one that is too new for the list with ENOSYS, as on an older kernel, and a path
//! that is not permitted with EACCES. Nothing is killed: a call that a library can do without costs nothing but the call.
//!
//! [`idmap`] is for the mounts that pods get.
//!
//! # Cost
//! `cargo run --release -p tetris-sandbox --example cost` makes the same calls before and after. A call costs 15 to 40 ns more where
//! any arguments are permitted, 140 ns where they are checked (2026-11-23, Linux 6.18 in a virtual machine, 2 cores, beside other work).
//! Entering takes about 1 ms.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod error;
pub mod idmap;
mod paths;
mod proc;
mod profile;
mod seccomp;
mod status;

pub use error::{SandboxError, Unrestricted};
pub use proc::Proc;
pub use profile::{Profile, Rights, SocketFamily};
pub use status::SandboxStatus;

use seccomp::Filters;

/// Takes from this process all rights that `profile` does not permit, for good: no_new_privs, then Landlock, then the filter of
/// system calls.
///
/// # Errors
/// When the process has threads already, a path of the profile is missing, or the kernel refuses the rules. The process may be
/// restricted in part then, and should end.
pub fn enter(profile: &Profile) -> Result<SandboxStatus, SandboxError> {
    let threads = Proc::of_self()?.threads();
    if threads != 1 {
        return Err(SandboxError::Threads { found: threads });
    }
    let filters = Filters::of(profile)?;
    let landlock = paths::enter(profile)?;
    let seccomp = filters.enter()?;
    SandboxStatus::new(seccomp, landlock)
}
