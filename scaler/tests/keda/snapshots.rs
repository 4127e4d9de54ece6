//! What was decided.

use tetris_scaler::state::Snapshot;

#[path = "../support/snapshot.rs"]
mod support;

/// The function `bert` with so many instances of its second configuration.
pub fn with(replicas: u32) -> Snapshot {
    let mut snapshot = support::snapshot(&[("bert", "External"), ("own", "Operator")]);
    support::decide(&mut snapshot, "bert", 1, replicas);
    snapshot
}

/// Before the first decision.
pub fn undecided() -> Snapshot {
    Snapshot::default()
}

/// Without any function.
pub fn empty() -> Snapshot {
    support::snapshot(&[])
}
