//! Copies of objects that another device of the node has, over the link between the devices.
//!
//! Torpor (5.3) takes a model from a GPU beside it before the host. An object comes that way if its
//! link is faster than that from the host, by the rates that were configured or measured. It stays in
//! its place meanwhile ([`crate::residency::Manager::pin`]). Whatever does not come that way, for any
//! reason, comes from the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::jobs::Load;
use super::state::State;
use super::worker::Worker;
use crate::arena::ChunkId;
use crate::residency::{Copy, DeviceId, Freed, TenantId};
use tetris_gpu_device::{DeviceMemory, MemoryError};

/// An object on another device, pinned there.
pub(super) struct OnPeer<D: DeviceMemory> {
    /// The copy to make.
    pub copy: Copy,
    peer: DeviceId,
    device: Arc<D>,
    mapping: Arc<D::Mapping>,
    /// Offset of the object there, in bytes.
    offset: u64,
}

impl<D: DeviceMemory> State<D> {
    /// Devices with a link to `id` that is faster than that from the host, the fastest first.
    fn peers(&self, id: DeviceId) -> Vec<DeviceId> {
        let Some(slot) = self.devices.get(&id) else {
            return Vec::new();
        };
        let from_host = slot.links.from_host.unwrap_or(0);
        let links = slot.links.from_devices.iter();
        let faster = links.filter_map(|(peer, rate)| {
            let rate = rate.filter(|rate| *rate > from_host)?;
            let works = self
                .devices
                .get(peer)
                .is_some_and(|device| device.lost.is_none());
            works.then_some((rate, *peer))
        });
        let mut peers: Vec<_> = faster.collect();
        peers.sort_unstable_by(|one, other| other.cmp(one));
        peers.into_iter().map(|(_, peer)| peer).collect()
    }

    /// Pins the objects of a load that other devices have. Returns them, and the copies that only
    /// the host has.
    fn on_peers(&mut self, id: DeviceId, load: &Load) -> (Vec<OnPeer<D>>, Vec<Copy>) {
        let peers = self.peers(id);
        let (mut there, mut host) = (Vec::new(), Vec::new());
        for copy in &load.copies {
            let found = peers
                .iter()
                .find_map(|peer| self.on_peer(*peer, load.tenant, copy));
            match found {
                Some(found) => there.push(found),
                None => host.push(*copy),
            }
        }
        (there, host)
    }

    fn on_peer(&mut self, peer: DeviceId, tenant: TenantId, copy: &Copy) -> Option<OnPeer<D>> {
        let place = self.manager.ready_place(peer, tenant, &copy.object)?;
        if place.len != copy.place.len {
            return None;
        }
        let slot = self.devices.get(&peer)?;
        let physical = slot.chunks.get(&(tenant, place.chunk))?;
        let (device, mapping) = (Arc::clone(&slot.device), Arc::clone(&physical.mapping));
        self.manager.pin(peer, tenant, &copy.object)?;
        Some(OnPeer {
            copy: *copy,
            peer,
            device,
            mapping,
            offset: place.offset,
        })
    }
}

impl<D: DeviceMemory> Worker<D> {
    /// Copies what other devices have and can give faster than the host. Returns the copies that are
    /// left.
    pub fn copy_from_peers(
        &mut self,
        load: &Load,
        targets: &BTreeMap<ChunkId, Arc<D::Mapping>>,
    ) -> Vec<Copy> {
        let (there, mut host) = self.core.state().on_peers(self.id, load);
        if there.is_empty() {
            return host;
        }
        let queued = self.queue_from_peers(&there, targets);
        let mut events = queued.unwrap_or_else(|error| {
            self.fail_across(&error);
            Vec::new()
        });
        events.reverse();
        for entry in there {
            let arrived = match events.pop().map(|event| self.device.wait(&event)) {
                Some(Ok(())) => true,
                Some(Err(error)) => {
                    self.fail_across(&error);
                    events.clear();
                    false
                }
                None => false,
            };
            // Nothing reads the peer's memory any more where the copy did not arrive: the stream
            // has ended.
            let stayed = self.unpin(&entry, load.tenant);
            if arrived && stayed {
                self.core.metrics.across_bytes.add(entry.copy.place.len);
                self.core.arrived(self.id, load.tenant, &entry.copy.object);
            } else {
                host.push(entry.copy);
            }
        }
        // Lets go of the peers' memory.
        if let Some(stream) = &mut self.across
            && let Err(error) = self.device.synchronize(stream)
        {
            self.fail_across(&error);
        }
        host
    }

    fn queue_from_peers(
        &mut self,
        there: &[OnPeer<D>],
        targets: &BTreeMap<ChunkId, Arc<D::Mapping>>,
    ) -> Result<Vec<D::Event>, MemoryError> {
        let stream = match &mut self.across {
            Some(stream) => stream,
            none => none.insert(self.device.stream()?),
        };
        let mut events = Vec::with_capacity(there.len());
        for entry in there {
            let place = entry.copy.place;
            let Some(to) = targets.get(&place.chunk) else {
                break;
            };
            let part = entry.offset..entry.offset.saturating_add(place.len);
            let (source, from) = (&*entry.device, &entry.mapping);
            self.device
                .copy_across(stream, to, place.offset, source, from, part)?;
            events.push(self.device.record(stream)?);
        }
        Ok(events)
    }

    /// Gives up the stream, which waits for its copies.
    fn fail_across(&mut self, error: &MemoryError) {
        tracing::warn!(%error, device = %self.id, "objects could not be copied from another device: they come from the host");
        self.core.metrics.failed_across.one();
        self.across = None;
    }

    fn unpin(&self, one: &OnPeer<D>, tenant: TenantId) -> bool {
        let mut state = self.core.state();
        let mut freed = Freed::default();
        let object = &one.copy.object;
        let stayed = state.manager.unpin(one.peer, tenant, object, &mut freed);
        state.free(one.peer, freed, &self.core.metrics);
        stayed
    }
}
