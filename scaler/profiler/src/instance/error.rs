//! What goes wrong with an instance.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

use crate::cgroup::CgroupError;
use crate::cpus::CpuError;
use crate::oip::OipError;

/// Why an instance does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// There is no command.
    #[error("no command; give one after `--`, such as `-- tetris-instance --port {{port}}`")]
    NoCommand,
    /// A process could not be started.
    #[error("cannot start {what}: {source}")]
    Start {
        /// Which.
        what: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No port is free.
    #[error("cannot get a free TCP port of 127.0.0.1: {0}")]
    Port(#[source] io::Error),
    /// Its cgroup could not be made or used.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Its CPUs could not be given to it.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// It ended by itself.
    #[error("the instance ended with {status} while it was {doing}{}", tail(log))]
    Exited {
        /// How.
        status: ExitStatus,
        /// What it should have been doing.
        doing: &'static str,
        /// The end of what it wrote.
        log: String,
    },
    /// It did not get ready in time.
    #[error(
        "the instance was not ready after {} s: {last}; --ready-seconds gives it longer{}", within.as_secs(), tail(log)
    )]
    NotReady {
        /// How long it had.
        within: Duration,
        /// The last answer.
        last: Box<OipError>,
        /// The end of what it wrote.
        log: String,
    },
}

fn tail(log: &str) -> String {
    let log = log.trim();
    if log.is_empty() {
        "; it wrote nothing".to_owned()
    } else {
        format!("; the end of what it wrote:\n{log}")
    }
}
