//! Writes to waiting pods.

use crate::placement::Gate;
use crate::state::Key;

/// A write.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Opens a gate.
    Open {
        /// The pod.
        pod: Key,
        /// Its gate.
        gate: Gate,
        /// Name of the node to which the pod is narrowed.
        node: Option<String>,
        /// UUID of the GPU there, for an instance that needs one.
        gpu: Option<String>,
        /// The reason, for the metrics.
        reason: &'static str,
        /// Time for which the gate has been closed, in milliseconds.
        waited_ms: u64,
    },
    /// Opens the gate of a pod of another owner.
    Prefer {
        /// The pod.
        pod: Key,
        /// Its gate.
        gate: Gate,
        /// Nodes that it prefers, each with a weight from 1 to 100.
        nodes: Vec<(String, i32)>,
        /// Time for which the gate has been closed, in milliseconds.
        waited_ms: u64,
    },
    /// Deletes a pod that its node does not take. Its controller makes another one.
    Replace {
        /// The pod.
        pod: Key,
        /// Its uid.
        uid: String,
        /// Its version without a node. One that is scheduled meanwhile stays.
        version: Option<String>,
        /// Name of the node.
        node: String,
    },
}
