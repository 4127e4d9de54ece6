//! What is known of a cluster.

use tetris_scaler_core::{Inventory, ModelTensors, Resources};

use super::pod::Owner;

/// A model that a pod wants, and the store that it gets it from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// For messages.
    pub model: String,
    /// Its tensors, by the ids that the inventory uses.
    pub tensors: ModelTensors,
    /// The store's name.
    pub store: String,
}

/// A store's room on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What it can hold, in bytes.
    pub capacity_bytes: u64,
    /// What is free, or could be freed for a load that needs it, in bytes.
    pub available_bytes: u64,
}

/// What is known of a cluster.
pub trait Cluster: Send + Sync + 'static {
    /// The model of a pod; `None` if there is no such function or profile.
    fn wanted(&self, owner: &Owner) -> Option<Wanted>;
    /// Which tensors the nodes have.
    fn inventory(&self) -> &Inventory;
    /// What is free of a node, and what it has.
    fn resources(&self, node: &str) -> Option<(Resources, Resources)>;
    /// The room of a store; `None` if the node has not told, or has not made it yet.
    fn room(&self, node: &str, store: &str) -> Option<Room>;
}
