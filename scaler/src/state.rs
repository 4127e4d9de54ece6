//! What was decided last, for those who only read it: the KEDA scaler and the scheduler extender.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tetris_scaler_core::{FunctionDecision, Inventory, Model, NodeView, Rate};
use tokio::sync::watch;

use crate::resources::CheckedFunction;

/// A function's namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The object `name` of `namespace`.
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

/// A function and what was decided for it.
#[derive(Debug, Clone)]
pub struct FunctionState {
    /// What its resource says.
    pub function: Arc<CheckedFunction>,
    /// What the core knows of it: profile, objective, tensors.
    pub model: Arc<Model>,
    /// The names of the profile's configurations, by index: what `decision` counts by.
    pub configurations: Arc<[String]>,
    /// Its load, if known.
    pub load: Option<Rate>,
    /// What was decided.
    pub decision: FunctionDecision,
}

impl FunctionState {
    /// How many instances there shall be of the configuration `name`; `None` if the function has no such.
    pub fn replicas(&self, name: &str) -> Option<u32> {
        let index = self.configurations.iter().position(|one| one == name)?;
        Some(self.decision.replicas.get(&index).copied().unwrap_or(0))
    }
}

/// All that was decided in one pass. Functions that cannot be decided on are not in it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// By namespace and name.
    pub functions: BTreeMap<Key, Arc<FunctionState>>,
    /// The nodes with their room, by index of the decisions' preferences.
    pub nodes: Arc<[NodeView]>,
    /// Which tensors the nodes have, by the ids of [`stored_object`](crate::resources::stored_object).
    pub inventory: Arc<Inventory>,
    /// When it was decided, in milliseconds since the epoch; 0 before the first pass.
    pub decided_ms: u64,
}

/// Where passes publish, and what readers clone: `borrow` for the last snapshot, `changed` for the next.
pub fn published() -> (watch::Sender<Arc<Snapshot>>, watch::Receiver<Arc<Snapshot>>) {
    watch::channel(Arc::default())
}
