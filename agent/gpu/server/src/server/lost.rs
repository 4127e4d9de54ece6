//! Devices that stopped working.
//!
//! The server forgets everything on such a device and admits no model to it. It notifies the clients
//! that wait for objects there, and they load into host memory. A client with a complete model
//! keeps it, as at a server's end: that memory is between the client and the driver.

use std::time::Instant;

use super::chunk::Physical;
use super::jobs::Job;
use super::state::State;
use crate::residency::DeviceId;
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::Reason;

impl<D: DeviceMemory> State<D> {
    /// Asks each device's thread to check the device, unless a check is already pending.
    pub fn check_devices(&mut self) {
        for slot in self.devices.values_mut() {
            if slot.checking.is_none() {
                slot.checking = Some(Instant::now());
                // Workers live as long as their senders.
                let _sent = slot.jobs.send(Job::Check);
            }
        }
    }

    /// The reason the chosen device, or every device if none is chosen, is lost; `None` if one
    /// works.
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

    /// Gives up a device. Returns its chunks, which the caller drops outside the lock.
    pub fn lose(&mut self, device: DeviceId, why: &str) -> Vec<Physical<D>> {
        let Some(slot) = self.devices.get_mut(&device) else {
            return Vec::new();
        };
        slot.lost = Some(why.to_owned());
        slot.transfers.clear();
        let mut chunks = slot.spares.take_all();
        chunks.extend(std::mem::take(&mut slot.chunks).into_values());
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
