//! Devices that stopped working.
//!
//! What is on such a device is forgotten, and nobody is admitted to it any more. Who waits for objects there is told, and loads into host
//! memory. Who has all of its model keeps it, as when a server ends: whether it can be used is between that process and the driver.

use std::collections::BTreeMap;

use super::state::{Physical, State};
use super::worker::Job;
use crate::arena::ChunkId;
use crate::memory::DeviceMemory;
use crate::protocol::Reason;
use crate::residency::{DeviceId, TenantId};

impl<D: DeviceMemory> State<D> {
    /// Has each device's thread ask whether the device works, unless it has been told to already.
    pub fn check_devices(&mut self) {
        for slot in self.devices.values_mut() {
            if !std::mem::replace(&mut slot.checking, true) {
                // Workers live as long as their senders.
                let _sent = slot.jobs.send(Job::Check);
            }
        }
    }

    /// Why nothing can be had of the device, or, if none is chosen, of any.
    pub fn lost(&self, on: Option<DeviceId>) -> Option<String> {
        let chosen = |id: &DeviceId| on.is_none_or(|on| on == *id);
        let mut slots = self.devices.iter().filter(|(id, _)| chosen(id));
        let (_, first) = slots.next()?;
        if slots.any(|(_, slot)| slot.lost.is_none()) {
            return None;
        }
        let why = first.lost.as_ref()?;
        Some(format!(
            "expected device {} to work, found it lost: {why}; load into host memory, and restart the daemon once `nvidia-smi` shows the device again",
            first.uuid
        ))
    }

    /// Gives a device up. Returns its chunks, to be dropped outside of the lock.
    pub fn lose(
        &mut self,
        device: DeviceId,
        why: &str,
    ) -> BTreeMap<(TenantId, ChunkId), Physical<D>> {
        let Some(slot) = self.devices.get_mut(&device) else {
            return BTreeMap::new();
        };
        slot.lost = Some(why.to_owned());
        let chunks = std::mem::take(&mut slot.chunks);
        self.manager.remove_device(device);
        self.leases.retain(|_, lease| {
            let stays = lease.device != device || (lease.handed_out && lease.left.is_empty());
            if !stays {
                let why = (Reason::COPY_FAILED, why.to_owned());
                lease.mailbox.leave(|post| post.failed = Some(why));
            }
            stays
        });
        self.tell_waiting();
        chunks
    }
}
