//! Snapshot of the last decision, for KEDA's external scaler and the metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tetris_scaler_core::{FunctionDecision, FunctionModel, FunctionOutcome, Rate};
use tokio::sync::watch;

use crate::resources::CheckedFunction;

/// Namespace and name of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Namespace of the function.
    pub namespace: String,
    /// Name of the function.
    pub name: String,
}

impl Key {
    /// Creates the key of the object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns the reason the load cannot be carried, if there is one.
pub(crate) fn infeasible(outcome: &FunctionOutcome) -> Option<&'static str> {
    Some(match outcome {
        FunctionOutcome::AtMaximum { .. } => "AtMaximum",
        FunctionOutcome::NoConfiguration => "NoConfiguration",
        FunctionOutcome::SloTooTight(_) => "SloTooTight",
        FunctionOutcome::NoNodeLargeEnough { .. } => "NoNodeLargeEnough",
        FunctionOutcome::OutOfRoom { .. } => "OutOfRoom",
        FunctionOutcome::Unplanned { .. } => "Unplanned",
        _ => return None,
    })
}

/// A function and the decision for it.
#[derive(Debug, Clone)]
pub struct FunctionState {
    /// The validated resource.
    pub function: Arc<CheckedFunction>,
    /// The core's model of it: profile, objective and tensors.
    pub model: Arc<FunctionModel>,
    /// Names of the profile's configurations. `decision` refers to them by index.
    pub configurations: Arc<[String]>,
    /// Load, if known.
    pub load: Option<Rate>,
    /// The last decision.
    pub decision: FunctionDecision,
    /// Number of instances that fail, by reason.
    pub failing: BTreeMap<&'static str, u32>,
}

impl FunctionState {
    /// Returns the decided number of instances of the configuration `name`, or `None` if the
    /// profile has no such configuration.
    pub fn replicas(&self, name: &str) -> Option<u32> {
        let index = self
            .configurations
            .iter()
            .position(|configuration| configuration == name)?;
        Some(self.decision.replicas.get(&index).copied().unwrap_or(0))
    }
}

/// All decisions of one pass. Functions without a decision are left out.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Functions by namespace and name.
    pub functions: BTreeMap<Key, Arc<FunctionState>>,
    /// Time of the decision, in milliseconds since the epoch; 0 before the first pass.
    pub decided_ms: u64,
}

/// Creates the channel of snapshots: passes send, and readers `borrow` the last snapshot or wait
/// for the next by `changed`.
pub fn published() -> (watch::Sender<Arc<Snapshot>>, watch::Receiver<Arc<Snapshot>>) {
    watch::channel(Arc::default())
}
