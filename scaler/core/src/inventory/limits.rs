//! How much an inventory may hold.

use thiserror::Error;

/// The most nodes of an inventory.
pub const MAX_NODES: usize = 1 << 16;

/// How much an inventory may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryLimits {
    /// Nodes; no more than [`MAX_NODES`].
    pub nodes: usize,
    /// Different objects, all nodes together.
    pub objects: usize,
    /// Pairs of a node and an object that it has.
    pub pairs: usize,
}

impl Default for InventoryLimits {
    /// 10,000 nodes of 10,000 objects each, some 600 MB; see [`Inventory`](super::Inventory).
    fn default() -> Self {
        Self {
            nodes: 10_000,
            objects: 1_000_000,
            pairs: 100_000_000,
        }
    }
}

/// An update would exceed the inventory's limits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("node {node} would make it {would_be} {what}; the limit is {limit}")]
pub struct InventoryFull {
    /// The node that was updated.
    pub node: String,
    /// "nodes", "objects" or "pairs of node and object".
    pub what: &'static str,
    /// How many there would be.
    pub would_be: usize,
    /// How many there may be.
    pub limit: usize,
}

/// How much an inventory would hold after an update.
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
