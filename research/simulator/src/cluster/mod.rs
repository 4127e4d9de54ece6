//! Nodes with their resources, and the weights in their stores or page caches.
//!
//! **Page cache.** A file's pages are on a node once. Pages that instances map count as memory, once
//! per node; pages that no one maps do not, since the kernel takes them back when memory is short:
//! the least recently used file first. They still make the next start of that file fast.
//!
//! **Store.** A tensor is on a node once, whatever file it came from. It counts from its load until
//! it was idle for a time.

mod node;
mod sharing;

use tetris_scaler_core::{Configuration, Inventory, InventoryLimits, Resources};

use crate::catalog::Function;
use crate::error::SimulationError;

pub use node::Node;
use sharing::Parts;
pub use sharing::Sharing;

/// Maximum number of nodes of a cluster.
pub const MAX_NODES: usize = 10_000;

/// Resources of two nodes in eight, 80 threads and 256 GB (Tetris table 3).
const LARGE: Resources = Resources {
    cpu_millis: 80_000,
    memory_bytes: 256_000_000_000,
};
/// Resources of the other six, 32 threads and 128 GB.
const SMALL: Resources = Resources {
    cpu_millis: 32_000,
    memory_bytes: 128_000_000_000,
};

/// Weights that an instance loads when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    /// Size of the weights read from the disk, in bytes.
    pub disk_bytes: u64,
    /// Size of the weights copied out of the page cache, in bytes.
    pub cache_bytes: u64,
}

/// Rules of a cluster about weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightRules {
    /// Way in which instances share weights.
    pub sharing: Sharing,
    /// Share of a mapped file that engines copy into private memory, in thousandths.
    pub copied_permille: u64,
    /// Time that an unused tensor stays in a store, in microseconds.
    pub keep_alive_us: u64,
}

/// All nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    rules: WeightRules,
    parts: Parts,
    /// Time of the last pass, in microseconds.
    now_us: u64,
    inventory: Inventory,
}

impl Cluster {
    /// Creates `count` nodes, two in eight of them large, as in the paper's testbed.
    ///
    /// # Errors
    ///
    /// Fails if there are more nodes than an inventory holds.
    pub fn try_new(count: usize, rules: WeightRules) -> Result<Self, SimulationError> {
        let node = |number: usize| {
            let all = if number % 8 < 2 { LARGE } else { SMALL };
            Node::new(format!("node-{number:05}"), all)
        };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let mut inventory = Inventory::new(InventoryLimits::default());
        for node in &nodes {
            inventory.set_node(&node.name, &[])?;
        }
        Ok(Self {
            nodes,
            rules,
            parts: Parts::of(rules.sharing, rules.copied_permille),
            now_us: 0,
            inventory,
        })
    }

    /// Nodes by index.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Tensors in the stores of the nodes, as the scaler sees them.
    pub const fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Returns the resources that one more instance takes from `node`, or `None` if there is no
    /// such node or no room.
    pub fn takes(
        &self,
        node: usize,
        function: &Function,
        configuration: &Configuration,
    ) -> Option<Resources> {
        let node = self.nodes.get(node)?;
        let units = self.rules.sharing.units(function);
        let once = match self.rules.sharing {
            Sharing::Store => node.missing_bytes(units),
            _ => self.parts.shared(node.unmapped_bytes(units)),
        };
        let takes = Resources {
            cpu_millis: configuration.cpu_millis(),
            memory_bytes: self.private_bytes(function, configuration) + once,
        };
        let free = node.free();
        let fits = takes.cpu_millis <= free.cpu_millis && takes.memory_bytes <= free.memory_bytes;
        fits.then_some(takes)
    }

    /// Starts an instance if it fits. Returns the weights that it must load.
    ///
    /// # Errors
    ///
    /// Fails if the tensors exceed the limits of an inventory.
    pub fn start(
        &mut self,
        at: usize,
        function: &Function,
        configuration: &Configuration,
    ) -> Result<Option<Loads>, SimulationError> {
        if self.takes(at, function, configuration).is_none() {
            return Ok(None);
        }
        let (rules, parts) = (self.rules, self.parts);
        let private = self.private_bytes(function, configuration);
        let Some(node) = self.nodes.get_mut(at) else {
            return Ok(None);
        };
        let units = rules.sharing.units(function);
        let loads = loads(rules.sharing, parts, node, function);
        node.used.cpu_millis += configuration.cpu_millis();
        node.used.memory_bytes = node.used.memory_bytes.saturating_add(private);
        match rules.sharing {
            Sharing::Private => {}
            Sharing::CopiedFile => node.attach(units, 0, self.now_us),
            Sharing::MappedFile | Sharing::Store => node.attach(units, 1, self.now_us),
        }
        node.recount(rules.sharing.caches_files(), |bytes| parts.shared(bytes));
        if rules.sharing == Sharing::Store && loads.disk_bytes > 0 {
            self.inventory.set_node(&node.name, &node.ids())?;
        }
        Ok(Some(loads))
    }

    /// Stops an instance at `now_us`.
    pub fn stop(
        &mut self,
        at: usize,
        function: &Function,
        configuration: &Configuration,
        now_us: u64,
    ) {
        let (rules, parts) = (self.rules, self.parts);
        let private = self.private_bytes(function, configuration);
        let Some(node) = self.nodes.get_mut(at) else {
            return;
        };
        let cpu = configuration.cpu_millis();
        node.used.cpu_millis = node.used.cpu_millis.saturating_sub(cpu);
        node.used.memory_bytes = node.used.memory_bytes.saturating_sub(private);
        if matches!(rules.sharing, Sharing::MappedFile | Sharing::Store) {
            node.detach(rules.sharing.units(function), now_us);
        }
        node.recount(rules.sharing.caches_files(), |bytes| parts.shared(bytes));
    }

    /// Frees tensors that were unused for the time of the rules. Call it at each pass.
    ///
    /// # Errors
    ///
    /// Fails if the tensors exceed the limits of an inventory.
    pub fn reclaim(&mut self, now_us: u64) -> Result<(), SimulationError> {
        self.now_us = now_us;
        if self.rules.sharing != Sharing::Store {
            return Ok(());
        }
        for node in &mut self.nodes {
            if node.expire(now_us, self.rules.keep_alive_us) {
                node.recount(false, |bytes| bytes);
                self.inventory.set_node(&node.name, &node.ids())?;
            }
        }
        Ok(())
    }

    /// Returns the used memory and CPU of all nodes together.
    pub fn used(&self) -> Resources {
        let nodes = self.nodes.iter();
        nodes.fold(Resources::default(), |sum, node| Resources {
            cpu_millis: sum.cpu_millis.saturating_add(node.used.cpu_millis),
            memory_bytes: sum
                .memory_bytes
                .saturating_add(node.used.memory_bytes)
                .saturating_add(node.resident_bytes),
        })
    }

    /// Size of the page caches' unmapped files on all nodes together, in bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.cached_bytes).sum()
    }

    /// Memory of an instance that no other shares, in bytes.
    const fn private_bytes(&self, function: &Function, configuration: &Configuration) -> u64 {
        let copied = self.parts.copied(function.file.total_bytes());
        configuration.own_bytes().saturating_add(copied)
    }
}

fn loads(sharing: Sharing, parts: Parts, node: &Node, function: &Function) -> Loads {
    let all = function.file.total_bytes();
    let missing = node.missing_bytes(sharing.units(function));
    match sharing {
        Sharing::Private => Loads {
            disk_bytes: all,
            cache_bytes: 0,
        },
        Sharing::Store => Loads {
            disk_bytes: missing,
            cache_bytes: 0,
        },
        Sharing::CopiedFile | Sharing::MappedFile => Loads {
            disk_bytes: missing,
            cache_bytes: if missing > 0 { 0 } else { parts.copied(all) },
        },
    }
}

#[cfg(test)]
mod tests;
