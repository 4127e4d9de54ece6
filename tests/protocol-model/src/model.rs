//! Processes of a model, their limits, and its initial state.

use crate::files::Files;
use crate::operation::{Rules, State};
use crate::process::{Process, Role};

/// Processes and their limits.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The protocols.
    pub rules: Rules,
    /// Number of operations of each loader.
    pub loaders: Vec<u8>,
    /// Number of operations of each reclaimer.
    pub reclaimers: Vec<u8>,
    /// Number of operations of each scrubber.
    pub scrubbers: Vec<u8>,
    /// Number of processes that may be killed.
    pub crashes: u8,
    /// Number of objects that may be damaged.
    pub faults: u8,
    /// The one invariant to check; `None`: all of them.
    pub only: Option<&'static str>,
}

impl Model {
    /// Returns the initial state.
    pub fn start(&self) -> State {
        let roles = [
            (Role::Loader, &self.loaders),
            (Role::Reclaimer, &self.reclaimers),
            (Role::Scrubber, &self.scrubbers),
        ];
        let processes = roles
            .into_iter()
            .flat_map(|(role, left)| left.iter().map(move |&left| Process::new(role, left)));
        State {
            files: Files::default(),
            processes: processes.collect(),
            crashes: self.crashes,
            faults: self.faults,
            crashed: false,
            written_after_naming: false,
            refused: false,
        }
    }
}

/// Mixes of processes, each small enough to be checked completely.
pub fn mixes() -> Vec<(&'static str, Model)> {
    let model = |objects, loaders: &[u8], reclaimers: &[u8], scrubbers: &[u8]| Model {
        rules: Rules {
            objects,
            ..Rules::default()
        },
        loaders: loaders.to_vec(),
        reclaimers: reclaimers.to_vec(),
        scrubbers: scrubbers.to_vec(),
        ..Model::default()
    };
    let crashing = |model: Model| Model {
        crashes: 1,
        ..model
    };
    let damaged = |model: Model| Model { faults: 1, ..model };
    let unprivileged = |model: Model| Model {
        rules: Rules {
            unprivileged: true,
            ..model.rules
        },
        ..model
    };
    vec![
        (
            "1 loader, 1 reclaimer, 1 crash",
            crashing(model(2, &[2], &[1], &[])),
        ),
        (
            "1 loader, 1 reclaimer without capabilities",
            unprivileged(model(1, &[2], &[2], &[])),
        ),
        (
            "2 loaders, 2 reclaimers, 1 crash",
            crashing(model(1, &[1, 1], &[1, 1], &[])),
        ),
        (
            "1 loader, 1 reclaimer, 2 scrubbers, 1 crash",
            crashing(model(1, &[2], &[1], &[1, 1])),
        ),
        (
            "1 loader, 1 reclaimer, 2 scrubbers",
            model(1, &[3], &[1], &[1, 1]),
        ),
        (
            "1 loader, 1 reclaimer, 1 scrubber",
            model(1, &[3], &[3], &[1]),
        ),
        (
            "2 loaders, 1 reclaimer, 2 objects, 1 crash",
            crashing(model(2, &[1, 1], &[2], &[])),
        ),
        (
            "2 loaders, 1 reclaimer, 1 damage",
            damaged(model(1, &[2, 1], &[1], &[])),
        ),
        (
            "2 loaders, 1 reclaimer, 1 scrubber",
            model(1, &[2, 1], &[1], &[1]),
        ),
        (
            "2 loaders, 2 reclaimers without capabilities, 1 crash",
            unprivileged(crashing(model(1, &[1, 1], &[1, 1], &[]))),
        ),
        ("3 loaders, 1 reclaimer", model(1, &[1, 1, 1], &[2], &[])),
        ("2 loaders, 2 reclaimers", model(1, &[2, 2], &[1, 1], &[])),
        (
            "1 loader, 2 reclaimers, 2 scrubbers",
            model(1, &[3], &[1, 1], &[1, 1]),
        ),
    ]
}
