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
