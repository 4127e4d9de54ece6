//! Chunks that exist ahead of need, so that no client waits for the driver to create one.
//!
//! Torpor (4.4) takes all device memory at the start. Here the amount is configured. Spares are made
//! when the server starts, and later by the thread that makes chunks, when it has nothing else to do.
//! A chunk that its last object leaves becomes a spare too, for its own tenant. One that no client had is
//! cleared later, for any tenant. Of the others a process may keep a descriptor.
//!
//! Spares count as free memory: they go when something else needs it.

use std::sync::Arc;

use super::chunk::{ChunkName, Physical};
use crate::residency::TenantId;
use tetris_gpu_device::DeviceMemory;

/// A chunk without objects.
#[derive(Debug)]
struct Spare<D: DeviceMemory> {
    physical: Physical<D>,
    /// The chunk's last name; `None` if it was cleared, and any tenant may get it.
    name: Option<ChunkName>,
}

/// The spares of a device, the oldest first.
#[derive(Debug)]
pub(super) struct Spares<D: DeviceMemory> {
    list: Vec<Spare<D>>,
    /// Most of their bytes; 0: none are kept.
    limit_bytes: u64,
    /// Length of those that are made, in bytes.
    pub chunk_bytes: u64,
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

    /// Returns true if another chunk of this length would be kept.
    pub fn takes(&self, bytes: u64) -> bool {
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

    /// Takes a chunk of this length for `tenant`: the tenant's before a common one.
    pub fn take(&mut self, tenant: TenantId, bytes: u64) -> Option<Physical<D>> {
        let fits = |spare: &Spare<D>, own: bool| {
            let owner = spare.name.map(|(owner, _)| owner);
            spare.physical.bytes == bytes && owner == own.then_some(tenant)
        };
        let of_tenant = self.list.iter().position(|spare| fits(spare, true));
        let at = of_tenant.or_else(|| self.list.iter().position(|spare| fits(spare, false)))?;
        Some(self.list.remove(at).physical)
    }

    /// Takes the chunk that `tenant` needs least: another tenant's, then its own, then one for all.
    pub fn give_up(
        &mut self,
        tenant: Option<TenantId>,
    ) -> Option<(Physical<D>, Option<ChunkName>)> {
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

    /// Takes a chunk, of this length if one is given, that could be for all: it was not cleared, and
    /// no one else had or has it.
    pub fn take_unclear(&mut self, bytes: Option<u64>) -> Option<(Physical<D>, ChunkName)> {
        let is_own = |spare: &Spare<D>| {
            let physical = &spare.physical;
            spare.name.is_some()
                && bytes.is_none_or(|bytes| bytes == physical.bytes)
                && physical.importers.is_empty()
                && Arc::strong_count(&physical.mapping) == 1
        };
        let at = self.list.iter().position(is_own)?;
        let spare = self.list.remove(at);
        Some((spare.physical, spare.name?))
    }

    /// Takes all chunks that only `tenant` may get.
    pub fn of(&mut self, tenant: TenantId) -> Vec<(Physical<D>, Option<ChunkName>)> {
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
