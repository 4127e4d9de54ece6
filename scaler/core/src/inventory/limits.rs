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

/// Memory of the container that the default limits are for, in bytes.
const DEFAULT_MEMORY: u64 = 512 << 20;

impl Default for InventoryLimits {
    /// Returns limits for 10,000 nodes of 2,000 objects each: at most 168 MB, see
    /// [`most_bytes`](Self::most_bytes). They are those of a container with 512 MiB, as the scaler
    /// copies the inventory while a decision reads it.
    fn default() -> Self {
        Self {
            nodes: 10_000,
            objects: 300_000,
            pairs: 20_000_000,
        }
    }
}

impl InventoryLimits {
    /// Least memory that limits are for, in bytes.
    pub const LEAST_MEMORY: u64 = 64 << 20;

    /// Returns the limits for a container with `memory` bytes: the default ones in proportion.
    ///
    /// **Guarantees.** Two inventories at their limits take at most three quarters of `memory`, or of
    /// [`LEAST_MEMORY`](Self::LEAST_MEMORY) if that is more. Nodes stay within [`MAX_NODES`], and
    /// objects within their 32-bit numbers.
    pub fn for_memory(memory: u64) -> Self {
        let memory = memory.max(Self::LEAST_MEMORY);
        let part = |of: usize| {
            let scaled =
                (of as u128).saturating_mul(u128::from(memory)) / u128::from(DEFAULT_MEMORY);
            usize::try_from(scaled).unwrap_or(usize::MAX)
        };
        let default = Self::default();
        Self {
            nodes: part(default.nodes).min(MAX_NODES),
            objects: part(default.objects).min(u32::MAX as usize),
            pairs: part(default.pairs),
        }
    }

    /// Memory of an inventory at its limits, in bytes: 6 for each pair, 150 for each object, and 300
    /// for each node.
    pub const fn most_bytes(&self) -> usize {
        let pairs = self.pairs.saturating_mul(6);
        let objects = self.objects.saturating_mul(150);
        let nodes = self.nodes.saturating_mul(300);
        pairs.saturating_add(objects).saturating_add(nodes)
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
