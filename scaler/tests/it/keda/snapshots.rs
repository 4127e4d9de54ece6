//! Snapshots of decisions.

use tetris_scaler::state::Snapshot;

use tetris_test_support::scaler_snapshot;

/// Returns the function `bert` with `replicas` instances of its second configuration.
pub fn with(replicas: u32) -> Snapshot {
    let mut made = scaler_snapshot::snapshot(&[("bert", "External"), ("own", "Operator")]);
    scaler_snapshot::decide(&mut made, "bert", 1, replicas);
    made
}

/// Returns the snapshot before the first decision.
pub fn undecided() -> Snapshot {
    Snapshot::default()
}

/// Returns a snapshot without functions.
pub fn empty() -> Snapshot {
    scaler_snapshot::snapshot(&[])
}
