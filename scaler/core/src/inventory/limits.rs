//! Limits of an inventory.

use thiserror::Error;

/// Maximum number of nodes of an inventory.
pub const MAX_NODES: usize = 1 << 16;

/// Limits of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryLimits {
    /// Maximum number of nodes; no more than [`MAX_NODES`].
    pub nodes: usize,
    /// Maximum number of different objects, over all nodes.
    pub objects: usize,
    /// Maximum number of pairs of a node and an object on it.
    pub pairs: usize,
}

impl Default for InventoryLimits {
    /// Returns limits for 10,000 nodes of 2,000 objects each: at most 165 MB, see
    /// [`most_bytes`](Self::most_bytes). The scaler's container has 512 MiB, and copies the inventory
    /// while a decision reads it.
    fn default() -> Self {
        Self {
            nodes: 10_000,
            objects: 300_000,
            pairs: 20_000_000,
        }
    }
}

impl InventoryLimits {
    /// Memory of an inventory at its limits, in bytes: 6 for each pair, and 150 for each object.
    pub const fn most_bytes(&self) -> usize {
        let pairs = self.pairs.saturating_mul(6);
        pairs.saturating_add(self.objects.saturating_mul(150))
    }
}

/// An update beyond the inventory's limits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("node {node}: found {would_be} {what}, expected at most {limit}")]
pub struct InventoryFull {
    /// Name of the node.
    pub node: String,
    /// Limited quantity: "nodes", "objects" or "pairs of node and object".
    pub what: &'static str,
    /// Number after the update.
    pub would_be: usize,
    /// Maximum number.
    pub limit: usize,
}

/// Size of an inventory after an update.
pub(super) struct Size {
    pub(super) nodes: usize,
    pub(super) objects: usize,
    pub(super) pairs: usize,
}

impl InventoryLimits {
    pub(super) fn check(&self, node: &str, would_be: &Size) -> Result<(), InventoryFull> {
        for (what, would_be, limit) in [
            ("nodes", would_be.nodes, self.nodes),
            ("objects", would_be.objects, self.objects),
            ("pairs of node and object", would_be.pairs, self.pairs),
        ] {
            if would_be > limit {
                let node = node.to_owned();
                return Err(InventoryFull {
                    node,
                    what,
                    would_be,
                    limit,
                });
            }
        }
        Ok(())
    }
}
