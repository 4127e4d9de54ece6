//! Snapshots of decisions.

use tetris_scaler::state::Snapshot;

#[path = "../support/snapshot.rs"]
mod support;

/// Returns the function `bert` with `replicas` instances of its second configuration.
pub fn with(replicas: u32) -> Snapshot {
    let mut snapshot = support::snapshot(&[("bert", "External"), ("own", "Operator")]);
    support::decide(&mut snapshot, "bert", 1, replicas);
    snapshot
}

/// Returns the snapshot before the first decision.
pub fn undecided() -> Snapshot {
    Snapshot::default()
}

/// Returns a snapshot without functions.
pub fn empty() -> Snapshot {
    support::snapshot(&[])
}
