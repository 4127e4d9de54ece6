//! Errors of entering a sandbox.

use std::io;
use std::path::PathBuf;

/// The reason why a process did not enter its sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// Other threads run already. Rules for paths would not bind them.
    #[error("expected one thread in this process, found {found}: the sandbox comes first")]
    Threads {
        /// Number of threads.
        found: u64,
    },
    /// A path of the profile cannot be opened.
    #[error("cannot open {} for the sandbox: {source}; make it before this process starts", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The kernel refused the rules for paths.
    #[error("cannot restrict paths (Landlock): {0}")]
    Landlock(#[from] landlock::RulesetError),
    /// The list of permitted system calls makes no filter.
    #[error("cannot compile the filter of system calls: {0}")]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel refused the filter.
    #[error("cannot filter system calls (seccomp): {0}")]
    Seccomp(#[source] seccompiler::Error),
    /// The process cannot read its own state.
    #[error("cannot read {}: {source}; mount /proc", path.display())]
    Proc {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// The reason why a restriction is not in force. The process runs on without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unrestricted {
    /// The configuration turns it off.
    #[error("{0}")]
    Configured(String),
    /// The kernel has no seccomp(2), or no filters.
    #[error("this kernel has no filter of system calls")]
    NoFilter,
    /// The kernel has too old a version of Landlock.
    #[error(
        "Landlock of version {found} forbids moves between directories; Linux 5.19 has version {oldest}"
    )]
    OldLandlock {
        /// Version of the interface.
        found: u32,
        /// The oldest version that is used.
        oldest: u32,
    },
    /// Landlock is not among the kernel's security modules.
    #[error("Landlock is off: the kernel's parameter `lsm` leaves it out")]
    LandlockOff,
    /// The kernel has no Landlock.
    #[error("no Landlock: this kernel has none, or the container's runtime hides it")]
    NoLandlock,
}
