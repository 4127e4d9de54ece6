//! Chunks that exist ahead of need, so that no client waits for the driver to create one.
//!
//! Torpor (4.4) takes all device memory at the start. Here the amount is configured. Spares are made
//! when the server starts, and later by the thread that makes chunks, when it has nothing else to do.
//! A chunk that its last object leaves becomes a spare too. One that clients had is only for its own
//! tenant again, because a process may keep a descriptor of it; the others are cleared.
//!
//! Spares count as free memory: they go when something else needs it.

use super::core::Core;
use super::state::{Physical, State};
use crate::arena::ChunkId;
use crate::memory::DeviceMemory;
use crate::residency::{DeviceId, TenantId};

/// Name of a chunk on its device.
pub(super) type ChunkName = (TenantId, ChunkId);

/// A chunk without objects.
#[derive(Debug)]
struct Spare<D: DeviceMemory> {
    physical: Physical<D>,
    /// The chunk's last name, if clients had it; `None` if any tenant may get it.
    name: Option<ChunkName>,
}

/// The spares of a device, the oldest first.
#[derive(Debug)]
pub(super) struct Spares<D: DeviceMemory> {
    list: Vec<Spare<D>>,
    /// Most of their bytes; 0: none are kept.
    limit_bytes: u64,
    /// Length of those that are made, in bytes.
    chunk_bytes: u64,
}

impl<D: DeviceMemory> Spares<D> {
    pub fn new(limit_bytes: u64, chunk_bytes: u64) -> Self {
        Self {
            list: Vec::new(),
            limit_bytes,
            chunk_bytes,
        }
    }

    /// Length of all spares, in bytes.
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|spare| spare.physical.bytes).sum()
    }

    fn takes(&self, bytes: u64) -> bool {
        bytes <= self.limit_bytes.saturating_sub(self.bytes())
    }

    /// Adds a chunk, or returns it if there are enough.
    pub fn put(
        &mut self,
        physical: Physical<D>,
        name: Option<ChunkName>,
    ) -> Result<(), Physical<D>> {
        if !self.takes(physical.bytes) {
            return Err(physical);
        }
        self.list.push(Spare { physical, name });
        Ok(())
    }

    /// Takes a chunk of this length for `tenant`: one of its own before one for all.
    pub fn take(&mut self, tenant: TenantId, bytes: u64) -> Option<Physical<D>> {
        let fits = |spare: &Spare<D>, own: bool| {
            let owner = spare.name.map(|(owner, _)| owner);
            spare.physical.bytes == bytes && owner == own.then_some(tenant)
        };
        let own = self.list.iter().position(|spare| fits(spare, true));
        let at = own.or_else(|| self.list.iter().position(|spare| fits(spare, false)))?;
        Some(self.list.remove(at).physical)
    }

    /// Takes the chunk that `tenant` needs least: another tenant's, then its own, then one for all.
    fn give_up(&mut self, tenant: Option<TenantId>) -> Option<(Physical<D>, Option<ChunkName>)> {
        let owner = |spare: &Spare<D>| spare.name.map(|(owner, _)| owner);
        let rank = |(at, spare): &(usize, &Spare<D>)| {
            let rank = match owner(spare) {
                None => 2,
                own if own == tenant => 1,
                Some(_) => 0,
            };
            (rank, *at)
        };
        let (at, _) = self.list.iter().enumerate().min_by_key(rank)?;
        let spare = self.list.remove(at);
        Some((spare.physical, spare.name))
    }

    /// Takes all chunks that only `tenant` may get.
    fn of(&mut self, tenant: TenantId) -> Vec<(Physical<D>, Option<ChunkName>)> {
        let owned = |spare: &mut Spare<D>| spare.name.is_some_and(|(owner, _)| owner == tenant);
        let taken = self.list.extract_if(.., owned);
        taken.map(|spare| (spare.physical, spare.name)).collect()
    }

    /// Takes all chunks.
    pub fn take_all(&mut self) -> Vec<Physical<D>> {
        let all = std::mem::take(&mut self.list);
        all.into_iter().map(|spare| spare.physical).collect()
    }
}

impl<D: DeviceMemory> State<D> {
    /// Length in bytes of the spare that is to be made next; `None` if there are enough, or if there
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
    /// Returns true if a chunk of this length would be kept as a spare.
    pub fn has_room_for_spare(&self, id: DeviceId, bytes: u64) -> bool {
        let state = self.state();
        let slot = state.devices.get(&id);
        slot.is_some_and(|slot| slot.lost.is_none() && slot.spares.takes(bytes))
    }

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
