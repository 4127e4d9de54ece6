//! Memory of released chunks that clients' processes keep, and the end of those processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chunk::ChunkName;
use super::importer::Importer;
use super::state::State;
use crate::residency::{ClientId, DeviceId};
use tetris_gpu_device::DeviceMemory;

impl<D: DeviceMemory> State<D> {
    /// Records that `importer` gets the chunks of a client's model.
    pub fn hand_to(&mut self, client: ClientId, importer: &Arc<Importer>) {
        let Some(lease) = self.leases.get(&client) else {
            return;
        };
        let Some(slot) = self.devices.get_mut(&lease.device) else {
            return;
        };
        for chunk in &lease.chunks {
            if let Some(physical) = slot.chunks.get_mut(&(lease.tenant, *chunk)) {
                let has = |one: &Arc<Importer>| Arc::ptr_eq(one, importer);
                if !physical.importers.iter().any(has) {
                    // Seldom, because each look is a system call.
                    if physical.importers.len().is_power_of_two() {
                        physical.importers.retain(|importer| !importer.has_gone());
                    }
                    physical.importers.push(Arc::clone(importer));
                }
            }
        }
    }

    /// Counts a released chunk whose memory is not free, until all of `importers` have gone.
    pub fn linger(
        &mut self,
        device: DeviceId,
        name: ChunkName,
        bytes: u64,
        importers: Vec<Arc<Importer>>,
    ) {
        if let Some(slot) = self.devices.get_mut(&device) {
            slot.lingering.insert(name, importers);
            self.manager.linger(device, name.0, name.1, bytes);
        }
    }

    /// Looks which processes have gone: memory that no one else keeps is free.
    pub fn sweep(&mut self) {
        let mut known: BTreeMap<*const Importer, bool> = BTreeMap::new();
        let mut free = Vec::new();
        for (device, slot) in &mut self.devices {
            slot.lingering.retain(|(tenant, chunk), importers| {
                importers.retain(|importer| {
                    let gone = known.entry(Arc::as_ptr(importer));
                    !*gone.or_insert_with(|| importer.has_gone())
                });
                if importers.is_empty() {
                    free.push((*device, *tenant, *chunk));
                }
                !importers.is_empty()
            });
        }
        for (device, tenant, chunk) in &free {
            self.manager.linger_no_longer(*device, *tenant, *chunk);
        }
        if !free.is_empty() {
            self.tell_waiting();
        }
    }
}
