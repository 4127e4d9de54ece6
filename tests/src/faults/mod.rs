//! Failing system calls, one at a time, by strace(1).
//!
//! A scenario is run once unharmed, with every system call written down. Each call between two markers, with each
//! error that it can return, makes one [`Injection`].

mod check;
mod errors;
mod place;
mod strace;
mod template;
mod worker;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use check::Check;
pub use place::Places;
pub use strace::{Injection, Stopped, Traced, reason_against};
pub use template::OWNER;
pub use worker::run;

/// Operation of a process while one of its system calls fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scenario {
    /// Creates a store.
    Create,
    /// Opens a store.
    Open,
    /// Publishes objects.
    Publish,
    /// Maps an object that is there, in both ways, and one that is not.
    Map,
    /// Reclaims an object that is not referenced, one that is, and one that is not there.
    Reclaim,
    /// The same as an owner without capabilities, who must change the mode first. Needs root.
    OwnerReclaim,
    /// Quarantines an object.
    Quarantine,
    /// Verifies all objects.
    Verify,
    /// Publishes and replaces manifests, identities and derived records.
    Records,
    /// Lists everything.
    Scan,
    /// Collects everything.
    Collect,
    /// A pass of the daemon that frees everything that no one maps, and keeps what it knows.
    Pass,
    /// Loads a model that is new.
    ColdLoad,
    /// Loads a known model.
    KnownLoad,
    /// Loads a known model of which some objects were reclaimed.
    Reload,
    /// Loads a model that has a sidecar.
    SidecarLoad,
    /// Loads a model that is new, into a store that has no room.
    FullLoad,
    /// Keeps a whole file in the store.
    WholeFile,
    /// Writes a sidecar.
    SidecarWrite,
}

/// All scenarios.
pub const SCENARIOS: [Scenario; 19] = [
    Scenario::Create,
    Scenario::Open,
    Scenario::Publish,
    Scenario::Map,
    Scenario::Reclaim,
    Scenario::OwnerReclaim,
    Scenario::Quarantine,
    Scenario::Verify,
    Scenario::Records,
    Scenario::Scan,
    Scenario::Collect,
    Scenario::Pass,
    Scenario::ColdLoad,
    Scenario::KnownLoad,
    Scenario::Reload,
    Scenario::SidecarLoad,
    Scenario::FullLoad,
    Scenario::WholeFile,
    Scenario::SidecarWrite,
];

/// Instructions for a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The operation.
    pub scenario: Scenario,
    /// The store.
    pub store: PathBuf,
    /// The model, where one is loaded.
    pub model: PathBuf,
}

/// Its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The error, if it failed.
    pub error: Option<String>,
    /// The part that must be the same with any fault, unless there is an error.
    pub result: String,
    /// The part that may be worse.
    pub quality: String,
}

/// Looked up by the worker before and after what is traced; no such file exists.
pub const BEGIN: &str = "/tetris-faults-begin";
/// See [`BEGIN`].
pub const END: &str = "/tetris-faults-end";
