//! Errors of an instance.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

use crate::cgroup::CgroupError;
use crate::cpus::CpuError;
use crate::oip::OipError;

/// The reason an instance does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// A missing command.
    #[error("no command; give one after `--`, such as `-- tetris-instance --port {{port}}`")]
    NoCommand,
    /// A process that cannot be started.
    #[error("cannot start {what}: {source}")]
    Start {
        /// The process.
        what: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// No free port.
    #[error("cannot find a free TCP port on 127.0.0.1: {0}")]
    Port(#[source] io::Error),
    /// A failed operation on its cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A failure to bind it to its CPUs.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// An instance that ended by itself.
    #[error("the instance ended with {status} while it was {doing}{}", tail(log))]
    Exited {
        /// Exit status.
        status: ExitStatus,
        /// Phase of the measurement.
        doing: &'static str,
        /// End of its output.
        log: String,
    },
    /// An instance that was not ready in time.
    #[error(
        "the instance was not ready after {} s: {last}; increase --ready-seconds{}", within.as_secs(), tail(log)
    )]
    NotReady {
        /// Timeout.
        within: Duration,
        /// Last answer of the server.
        last: Box<OipError>,
        /// End of its output.
        log: String,
    },
}

fn tail(log: &str) -> String {
    let log = log.trim();
    if log.is_empty() {
        "; it had no output".to_owned()
    } else {
        format!("; the end of its output:\n{log}")
    }
}
