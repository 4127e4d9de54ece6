//! A node: its resources, and the weights in its store or page cache.

use std::collections::BTreeMap;

use tetris_scaler_core::{ModelTensors, Resources};
use tetris_store_layout::ObjectId;

/// A tensor in the store of a node, or a file in its page cache.
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
    /// Resources of its instances, without shared weights.
    pub used: Resources,
    /// Size of the shared weights that the kernel cannot take back, in bytes: tensors of the store,
    /// and mapped pages of files.
    pub resident_bytes: u64,
    /// Size of the pages of files that no one maps, in bytes. They are free memory.
    pub cached_bytes: u64,
    resident: BTreeMap<ObjectId, Resident>,
}

impl Node {
    pub(super) fn new(name: String, all: Resources) -> Self {
        Self {
            name,
            all,
            used: Resources::default(),
            resident_bytes: 0,
            cached_bytes: 0,
            resident: BTreeMap::new(),
        }
    }

    /// Returns the free resources.
    pub const fn free(&self) -> Resources {
        let taken = self.used.memory_bytes.saturating_add(self.resident_bytes);
        Resources {
            cpu_millis: self.all.cpu_millis.saturating_sub(self.used.cpu_millis),
            memory_bytes: self.all.memory_bytes.saturating_sub(taken),
        }
    }

    /// Size of the units that are neither in the store nor in the page cache, in bytes.
    pub fn missing_bytes(&self, units: &ModelTensors) -> u64 {
        let missing = units.objects().iter();
        let missing = missing.filter(|(id, _)| !self.resident.contains_key(id));
        missing.map(|(_, bytes)| bytes).sum()
    }

    /// Size of the units that no one maps yet, in bytes.
    pub(super) fn unmapped_bytes(&self, units: &ModelTensors) -> u64 {
        let mapped = |id| {
            self.resident
                .get(id)
                .is_some_and(|resident| resident.users > 0)
        };
        let unmapped = units.objects().iter().filter(|(id, _)| !mapped(id));
        unmapped.map(|(_, bytes)| bytes).sum()
    }

    /// Returns true if the node has no instances and no tensors.
    pub fn is_empty(&self) -> bool {
        self.used == Resources::default() && self.resident.is_empty()
    }

    /// Identifiers of all units, ascending.
    pub(super) fn ids(&self) -> Vec<ObjectId> {
        self.resident.keys().copied().collect()
    }

    /// Adds `users` references to units, and the units that are missing.
    pub(super) fn attach(&mut self, units: &ModelTensors, users: u32, now_us: u64) {
        for &(id, bytes) in units.objects() {
            let resident = self.resident.entry(id).or_insert(Resident {
                bytes,
                users: 0,
                idle_since_us: now_us,
            });
            resident.users = resident.users.saturating_add(users);
            resident.idle_since_us = now_us;
        }
    }

    pub(super) fn detach(&mut self, units: &ModelTensors, now_us: u64) {
        for (id, _) in units.objects() {
            if let Some(resident) = self.resident.get_mut(id) {
                resident.users = resident.users.saturating_sub(1);
                resident.idle_since_us = now_us;
            }
        }
    }

    /// Frees units that were idle for `keep_alive_us`. Returns true if there were any.
    pub(super) fn expire(&mut self, now_us: u64, keep_alive_us: u64) -> bool {
        let before = self.resident.len();
        self.resident.retain(|_, one| {
            one.users > 0 || now_us.saturating_sub(one.idle_since_us) < keep_alive_us
        });
        self.resident.len() < before
    }

    /// Counts units again. If idle ones are reclaimable, it evicts the least recently used ones
    /// that have no room beside `used` and the mapped ones.
    pub(super) fn recount(&mut self, reclaimable: bool, shared: impl Fn(u64) -> u64) {
        let mapped = self.resident.values();
        let mapped = mapped.filter(|entry| entry.users > 0 || !reclaimable);
        self.resident_bytes = mapped.map(|mapped| shared(mapped.bytes)).sum();
        if !reclaimable {
            return;
        }
        let idle = |one: &&Resident| one.users == 0;
        self.cached_bytes = self
            .resident
            .values()
            .filter(idle)
            .map(|resident| resident.bytes)
            .sum();
        while self.cached_bytes > self.free().memory_bytes {
            let oldest = self.resident.iter().filter(|(_, entry)| idle(entry));
            let oldest = oldest.min_by_key(|(_, entry)| entry.idle_since_us);
            let Some((&id, &one)) = oldest else {
                return;
            };
            self.resident.remove(&id);
            self.cached_bytes = self.cached_bytes.saturating_sub(one.bytes);
        }
    }
}
