//! Nodes with their resources, and the tensors in their stores.

use std::collections::BTreeMap;

use tetris_scaler_core::{Configuration, Inventory, InventoryLimits, ModelTensors, Resources};
use tetris_store_layout::ObjectId;

use crate::error::SimulationError;

/// Maximum number of nodes of a cluster.
pub const MAX_NODES: usize = 10_000;
/// Time that an unused tensor stays, in microseconds. Assumed; the paper has such a window but does
/// not give its length (Tetris 3.4).
pub const KEEP_ALIVE_US: u64 = 60_000_000;

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

/// A tensor in the store of a node.
#[derive(Clone, Copy, Debug)]
struct Resident {
    bytes: u64,
    users: u32,
    /// Time at which the last user left, in microseconds.
    idle_since_us: u64,
}

/// A node of the cluster.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of the node; names sort like indices.
    pub name: String,
    /// Resources of the node.
    pub all: Resources,
    /// Resources of its instances, without tensors.
    pub used: Resources,
    resident: BTreeMap<ObjectId, Resident>,
    /// Size of all tensors in its store, in bytes.
    pub resident_bytes: u64,
}

impl Node {
    /// Returns the free resources.
    pub const fn free(&self) -> Resources {
        let taken = self.used.memory_bytes.saturating_add(self.resident_bytes);
        Resources {
            cpu_millis: self.all.cpu_millis.saturating_sub(self.used.cpu_millis),
            memory_bytes: self.all.memory_bytes.saturating_sub(taken),
        }
    }

    /// Size of the model's tensors that are not on the node, in bytes.
    pub fn missing_bytes(&self, tensors: &ModelTensors) -> u64 {
        let objects = tensors.objects().iter();
        let missing = objects.filter(|(id, _)| !self.resident.contains_key(id));
        missing.map(|(_, bytes)| bytes).sum()
    }

    /// Returns true if the node has no instances and no tensors.
    pub fn is_empty(&self) -> bool {
        self.used == Resources::default() && self.resident.is_empty()
    }

    fn attach(&mut self, tensors: &ModelTensors) {
        for &(id, bytes) in tensors.objects() {
            let fresh = Resident {
                bytes,
                users: 0,
                idle_since_us: 0,
            };
            let resident = self.resident.entry(id).or_insert_with(|| {
                self.resident_bytes = self.resident_bytes.saturating_add(bytes);
                fresh
            });
            resident.users = resident.users.saturating_add(1);
        }
    }

    fn detach(&mut self, tensors: &ModelTensors, now_us: u64) {
        for (id, _) in tensors.objects() {
            if let Some(resident) = self.resident.get_mut(id) {
                resident.users = resident.users.saturating_sub(1);
                resident.idle_since_us = now_us;
            }
        }
    }

    /// Frees tensors that were idle for the window. Returns true if there were any.
    fn reclaim(&mut self, now_us: u64) -> bool {
        let before = self.resident.len();
        self.resident.retain(|_, one| {
            one.users > 0 || now_us.saturating_sub(one.idle_since_us) < KEEP_ALIVE_US
        });
        let bytes = self.resident.values().map(|one| one.bytes);
        self.resident_bytes = bytes.sum();
        self.resident.len() < before
    }
}

/// All nodes.
#[derive(Clone, Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    /// True if instances of a node share tensors through its store.
    shares: bool,
    inventory: Inventory,
}

impl Cluster {
    /// Creates `count` nodes, two in eight of them large, as in the paper's testbed.
    ///
    /// # Errors
    ///
    /// Fails if there are more nodes than an inventory holds.
    pub fn try_new(count: usize, shares: bool) -> Result<Self, SimulationError> {
        let node = |number: usize| Node {
            name: format!("node-{number:05}"),
            all: if number % 8 < 2 { LARGE } else { SMALL },
            used: Resources::default(),
            resident: BTreeMap::new(),
            resident_bytes: 0,
        };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let mut inventory = Inventory::new(InventoryLimits::default());
        for node in &nodes {
            inventory.set_node(&node.name, &[])?;
        }
        Ok(Self {
            nodes,
            shares,
            inventory,
        })
    }

    /// Nodes by index.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Tensors of the nodes, as the scaler sees them.
    pub const fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Returns true if instances of a node share tensors.
    pub const fn shares(&self) -> bool {
        self.shares
    }

    /// Returns the resources that one more instance takes from `node`, or `None` if there is no
    /// such node or no room.
    pub fn takes(
        &self,
        node: usize,
        tensors: &ModelTensors,
        configuration: &Configuration,
    ) -> Option<Resources> {
        let node = self.nodes.get(node)?;
        let loads = if self.shares {
            node.missing_bytes(tensors)
        } else {
            tensors.total_bytes()
        };
        let takes = Resources {
            cpu_millis: configuration.cpu_millis(),
            memory_bytes: configuration.own_bytes().saturating_add(loads),
        };
        let free = node.free();
        let fits = takes.cpu_millis <= free.cpu_millis && takes.memory_bytes <= free.memory_bytes;
        fits.then_some(takes)
    }

    /// Starts an instance if it fits. Returns the size of the tensors that it has to load, in
    /// bytes.
    ///
    /// # Errors
    ///
    /// Fails if the tensors exceed the limits of an inventory.
    pub fn start(
        &mut self,
        at: usize,
        tensors: &ModelTensors,
        configuration: &Configuration,
    ) -> Result<Option<u64>, SimulationError> {
        let Some(takes) = self.takes(at, tensors, configuration) else {
            return Ok(None);
        };
        let Some(node) = self.nodes.get_mut(at) else {
            return Ok(None);
        };
        let loads = takes.memory_bytes.saturating_sub(configuration.own_bytes());
        let own = own_memory(self.shares, tensors, configuration);
        node.used.cpu_millis = node.used.cpu_millis.saturating_add(takes.cpu_millis);
        node.used.memory_bytes = node.used.memory_bytes.saturating_add(own);
        if self.shares {
            node.attach(tensors);
            if loads > 0 {
                Self::tell(&mut self.inventory, node)?;
            }
        }
        Ok(Some(loads))
    }

    /// Stops an instance.
    pub fn stop(
        &mut self,
        at: usize,
        tensors: &ModelTensors,
        configuration: &Configuration,
        now_us: u64,
    ) {
        let own = own_memory(self.shares, tensors, configuration);
        if let Some(node) = self.nodes.get_mut(at) {
            let cpu = configuration.cpu_millis();
            node.used.cpu_millis = node.used.cpu_millis.saturating_sub(cpu);
            node.used.memory_bytes = node.used.memory_bytes.saturating_sub(own);
            if self.shares {
                node.detach(tensors, now_us);
            }
        }
    }

    /// Frees tensors that were unused for [`KEEP_ALIVE_US`].
    ///
    /// # Errors
    ///
    /// Fails if the tensors exceed the limits of an inventory.
    pub fn reclaim(&mut self, now_us: u64) -> Result<(), SimulationError> {
        for node in &mut self.nodes {
            if node.reclaim(now_us) {
                Self::tell(&mut self.inventory, node)?;
            }
        }
        Ok(())
    }

    /// Returns the used memory and CPU of all nodes together.
    pub fn used(&self) -> Resources {
        let each = self.nodes.iter();
        each.fold(Resources::default(), |sum, node| Resources {
            cpu_millis: sum.cpu_millis.saturating_add(node.used.cpu_millis),
            memory_bytes: sum
                .memory_bytes
                .saturating_add(node.used.memory_bytes)
                .saturating_add(node.resident_bytes),
        })
    }

    fn tell(inventory: &mut Inventory, node: &Node) -> Result<(), SimulationError> {
        let has: Vec<ObjectId> = node.resident.keys().copied().collect();
        inventory.set_node(&node.name, &has)?;
        Ok(())
    }
}

/// Memory of an instance that no other shares, in bytes.
const fn own_memory(shares: bool, tensors: &ModelTensors, configuration: &Configuration) -> u64 {
    if shares {
        configuration.own_bytes()
    } else {
        configuration
            .own_bytes()
            .saturating_add(tensors.total_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Application, Function};

    fn function(application: Application) -> Function {
        let (model, variant) = application.stages()[0][0];
        Function::try_new(model, variant).unwrap()
    }

    #[test]
    fn a_second_instance_costs_its_own_memory_only_where_tensors_are_shared() {
        let function = function(Application::Ss);
        let one = function.profile.configurations()[0];
        for (shares, second) in [(true, 0), (false, 1_651_000_000)] {
            let mut cluster = Cluster::try_new(8, shares).unwrap();
            let first = cluster.start(1, &function.tensors, &one).unwrap();
            assert_eq!(first, Some(1_651_000_000));
            let again = cluster.start(1, &function.tensors, &one).unwrap();
            assert_eq!(again, Some(second));
            let memory = 1_720_000_000 + 69_000_000 + second;
            assert_eq!(
                cluster.used(),
                Resources {
                    cpu_millis: 2_000,
                    memory_bytes: memory
                }
            );
        }
    }

    #[test]
    fn tensors_stay_for_the_window_and_the_inventory_follows() {
        let function = function(Application::Ss);
        let one = function.profile.configurations()[0];
        let mut cluster = Cluster::try_new(2, true).unwrap();
        cluster.start(1, &function.tensors, &one).unwrap();
        let theta = |cluster: &Cluster| {
            let theta = cluster.inventory().theta(&function.tensors, "node-00001");
            theta.unwrap().permille()
        };
        cluster.reclaim(10 * KEEP_ALIVE_US).unwrap();
        assert_eq!(theta(&cluster), 1_000);
        cluster.stop(1, &function.tensors, &one, KEEP_ALIVE_US);
        cluster.reclaim(2 * KEEP_ALIVE_US - 1).unwrap();
        assert_eq!(cluster.used().memory_bytes, 1_651_000_000);
        assert_eq!(theta(&cluster), 1_000);
        cluster.reclaim(2 * KEEP_ALIVE_US).unwrap();
        assert_eq!(cluster.used(), Resources::default());
        assert_eq!(theta(&cluster), 0);
    }

    #[test]
    fn no_node_gives_more_than_it_has() {
        let function = function(Application::Ss);
        let one = function.profile.configurations()[0];
        let mut cluster = Cluster::try_new(3, true).unwrap();
        for _ in 0..32 {
            assert!(cluster.start(2, &function.tensors, &one).unwrap().is_some());
        }
        assert_eq!(cluster.start(2, &function.tensors, &one).unwrap(), None);
        assert_eq!(cluster.start(3, &function.tensors, &one).unwrap(), None);
        assert_eq!(cluster.nodes()[2].free().cpu_millis, 0);
    }
}
