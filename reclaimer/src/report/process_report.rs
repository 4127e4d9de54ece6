//! Reports of a process to the others: errors, usage, volumes, and its sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::VolumeStatus;
use crate::process::Process;

/// Time between two reports while nothing changes.
pub const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Age from which a report counts as missing.
pub const REPORT_OLD: Duration = Duration::from_secs(20);
/// Maximum length of a report as JSON, in bytes.
pub const REPORT_BYTES: usize = 64 << 10;

/// Report of one process: `PUT /reports/<process>` of the broker, and of `cluster` for its health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The process that sends it.
    pub process: Process,
    /// Version of its binary.
    pub version: String,
    /// Time of its start, in milliseconds since the epoch.
    pub started_ms: u64,
    /// Errors since its start, by the name of their [`ErrorClass`](crate::report::ErrorClass).
    #[serde(default)]
    pub errors: BTreeMap<String, u64>,
    /// Its use of the machine.
    #[serde(default)]
    pub usage: Usage,
    /// The CSI driver; only of `volumes`.
    #[serde(default)]
    pub volumes: Option<VolumesReport>,
    /// Limits that the kernel holds it to.
    pub sandbox: SandboxReport,
}

/// Use of the machine by a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Processor time since its start, in milliseconds.
    pub cpu_ms: u64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Number of open files.
    pub open_files: u64,
    /// Number of threads.
    pub threads: u64,
}

/// State of the CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumesReport {
    /// True if the kubelet has registered the driver.
    pub registered: bool,
    /// The reason that pods cannot get volumes yet; none where they can.
    pub waiting_for: Option<String>,
    /// Number of volumes.
    pub counts: VolumeStatus,
}

/// Limits that the kernel holds a process to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxReport {
    /// True if the process's filter of system calls is in force.
    pub seccomp: bool,
    /// The reason that there is no filter.
    pub seccomp_because: Option<String>,
    /// Version of the kernel's Landlock interface whose rules are in force; none without rules.
    pub landlock: Option<u32>,
    /// The reason that there are no rules.
    pub landlock_because: Option<String>,
    /// Effective capabilities, as the kernel writes them in `/proc/self/status`.
    pub capabilities: String,
    /// Effective user id.
    pub uid: u32,
}
