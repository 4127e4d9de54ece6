//! Free resources of a node.

use super::input::Node;
use super::shortage::Shortage;
use crate::score::Resources;

/// Free resources of a node. Tensors have their own room, or share memory with instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Room {
    pub(super) cpu_millis: u64,
    pub(super) memory_bytes: u64,
    pub(super) tensor_bytes: Option<u64>,
}

impl Room {
    pub(super) const fn of(node: &Node) -> Self {
        Self {
            cpu_millis: node.free.cpu_millis,
            memory_bytes: node.free.memory_bytes,
            tensor_bytes: node.tensor_bytes,
        }
    }

    /// Returns the shortage for an instance that `needs` these resources and loads `missing` bytes
    /// of tensors.
    pub(super) const fn lacks(&self, needs: Resources, missing: u64) -> Shortage {
        let (memory, tensors) = self.split(needs, missing);
        let room = match self.tensor_bytes {
            Some(room) => room,
            None => u64::MAX,
        };
        Shortage {
            cpu_millis: needs.cpu_millis.saturating_sub(self.cpu_millis),
            memory_bytes: memory.saturating_sub(self.memory_bytes),
            tensor_bytes: tensors.saturating_sub(room),
            gpus: 0,
            gpu_bytes: 0,
            gpu_permille: 0,
        }
    }

    pub(super) fn take(&mut self, needs: Resources, missing: u64) {
        let (memory, tensors) = self.split(needs, missing);
        self.cpu_millis = self.cpu_millis.saturating_sub(needs.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_sub(memory);
        self.tensor_bytes = self.tensor_bytes.map(|room| room.saturating_sub(tensors));
    }

    pub(super) fn give(&mut self, needs: Resources, missing: u64) {
        let (memory, tensors) = self.split(needs, missing);
        self.cpu_millis = self.cpu_millis.saturating_add(needs.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(memory);
        self.tensor_bytes = self.tensor_bytes.map(|room| room.saturating_add(tensors));
    }

    /// Returns the largest share of the free resources that an instance takes, in millionths; at
    /// least 1.
    pub(super) fn strain(&self, needs: Resources, missing: u64) -> u128 {
        let (memory, tensors) = self.split(needs, missing);
        let tensors = self.tensor_bytes.map_or(0, |room| share(tensors, room));
        share(needs.cpu_millis, self.cpu_millis)
            .max(share(memory, self.memory_bytes))
            .max(tensors)
            .max(1)
    }

    /// Splits requirements into memory and room for tensors.
    const fn split(&self, needs: Resources, missing: u64) -> (u64, u64) {
        match self.tensor_bytes {
            Some(_) => (needs.memory_bytes, missing),
            None => (needs.memory_bytes.saturating_add(missing), 0),
        }
    }
}

impl Shortage {
    /// Returns the largest share of an instance's needs that is lacking, in millionths. `of_gpu` has
    /// the device memory that it takes, in bytes, and its part of a GPU's time, in thousandths.
    pub(super) fn worst(&self, needs: Resources, missing: u64, of_gpu: (u64, u64)) -> u128 {
        let memory = needs.memory_bytes.saturating_add(missing);
        share(self.cpu_millis, needs.cpu_millis)
            .max(share(self.memory_bytes, memory))
            .max(share(self.tensor_bytes, missing))
            .max(share(self.gpus, 1))
            .max(share(self.gpu_bytes, of_gpu.0))
            .max(share(self.gpu_permille, of_gpu.1))
    }
}

impl Node {
    /// Frees `bytes` of tensors of a store.
    pub(crate) fn give_back(&mut self, store: usize, bytes: u64) {
        if let Some(room) = self.stores.get_mut(&store) {
            *room = room.saturating_add(bytes);
        }
        match &mut self.tensor_bytes {
            Some(room) => *room = room.saturating_add(bytes),
            None => self.free.memory_bytes = self.free.memory_bytes.saturating_add(bytes),
        }
    }

    /// Returns the node as if it had no GPUs.
    pub(crate) fn without_gpus(&self) -> Self {
        Self {
            name: self.name.clone(),
            stores: self.stores.clone(),
            gpus: Vec::new(),
            ..*self
        }
    }

    /// Takes the resources of instances and their `missing` tensors of a store. Returns true if there
    /// was enough.
    pub(crate) fn take(&mut self, needs: Resources, store: usize, missing: u64) -> bool {
        let mut room = Room::of(self);
        let mut fits = room.lacks(needs, missing).is_none();
        if let Some(room) = self.stores.get_mut(&store) {
            fits &= missing <= *room;
            *room = room.saturating_sub(missing);
        }
        room.take(needs, missing);
        self.free = Resources {
            cpu_millis: room.cpu_millis,
            memory_bytes: room.memory_bytes,
        };
        self.tensor_bytes = room.tensor_bytes;
        fits
    }
}

pub(super) fn share(part: u64, all: u64) -> u128 {
    u128::from(part) * 1_000_000 / u128::from(all.max(1))
}
