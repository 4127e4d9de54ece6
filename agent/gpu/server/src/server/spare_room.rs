//! Room for spare chunks in the devices' memory.

use super::chunk::{ChunkName, Physical};
use super::core::Core;
use super::state::State;
use crate::residency::{DeviceId, TenantId};
use tetris_gpu_device::DeviceMemory;

impl<D: DeviceMemory> State<D> {
    /// Length of the next spare in bytes; `None` if there are enough, or if there
    /// is no memory for more.
    pub fn next_spare(&self, id: DeviceId) -> Option<u64> {
        let slot = self.devices.get(&id).filter(|slot| slot.lost.is_none())?;
        let usage = self.manager.usage(id)?;
        let bytes = slot.spares.chunk_bytes;
        let taken = usage.created_bytes.saturating_add(slot.spares.bytes());
        let fits = taken.saturating_add(bytes) <= usage.capacity_bytes;
        (fits && slot.spares.takes(bytes)).then_some(bytes)
    }

    /// Takes a spare if the device's chunks and spares exceed its capacity, or in any case if `all`.
    /// `tenant` needs the memory.
    pub fn excess_spare(
        &mut self,
        id: DeviceId,
        tenant: Option<TenantId>,
        all: bool,
    ) -> Option<(Physical<D>, Option<ChunkName>)> {
        let usage = self.manager.usage(id)?;
        let slot = self.devices.get_mut(&id)?;
        let taken = usage.created_bytes.saturating_add(slot.spares.bytes());
        let is_needed = all || taken > usage.capacity_bytes;
        is_needed.then(|| slot.spares.give_up(tenant)).flatten()
    }

    /// Takes a spare that can be cleared for all tenants.
    pub fn unclear_spare(&mut self, id: DeviceId) -> Option<(Physical<D>, ChunkName)> {
        let slot = self.devices.get_mut(&id).filter(|slot| slot.lost.is_none());
        slot?.spares.take_unclear(None)
    }

    /// Takes the spares that only a tenant may get, which has left.
    pub fn spares_of(
        &mut self,
        id: DeviceId,
        tenant: TenantId,
    ) -> Vec<(Physical<D>, Option<ChunkName>)> {
        let slot = self.devices.get_mut(&id);
        slot.map_or_else(Vec::new, |slot| slot.spares.of(tenant))
    }
}

impl<D: DeviceMemory> Core<D> {
    /// Puts a chunk without objects among the spares, or returns it.
    pub fn spare(
        &self,
        id: DeviceId,
        physical: Physical<D>,
        name: Option<ChunkName>,
    ) -> Result<(), Physical<D>> {
        let mut state = self.state();
        match state.devices.get_mut(&id) {
            Some(slot) if slot.lost.is_none() => slot.spares.put(physical, name),
            _ => Err(physical),
        }
    }
}
