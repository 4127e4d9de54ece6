//! Requests that need no model.

use std::sync::Arc;

use super::Session;
use crate::residency::DeviceId;
use crate::server::state::{Slot, State};
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::{DeviceEntry, DeviceStatus, Reply, StatusReport};

impl<D: DeviceMemory> Session<D> {
    pub(super) fn devices(&self) -> Reply {
        // Queries the driver outside the lock, and skips lost devices, whose driver may not answer.
        let devices: Vec<_> = {
            let state = self.core.state();
            let entry = |(id, slot): (&DeviceId, &Slot<D>)| {
                let capacity = state.manager.usage(*id);
                let capacity = capacity.map_or(0, |usage| usage.capacity_bytes);
                (
                    *id,
                    slot.lost.is_none().then(|| Arc::clone(&slot.device)),
                    slot.uuid,
                    slot.name.clone(),
                    capacity,
                )
            };
            state.devices.iter().map(entry).collect()
        };
        let entry = |(id, device, uuid, name, capacity_bytes)| {
            let (id, device): (DeviceId, Option<Arc<D>>) = (id, device);
            let info = device.and_then(|device| device.info().ok());
            let (total_bytes, free_bytes) =
                info.map_or((0, 0), |info| (info.total_bytes, info.free_bytes));
            DeviceEntry {
                number: id.0,
                uuid,
                total_bytes,
                free_bytes,
                capacity_bytes,
                name,
            }
        };
        Reply::Devices(devices.into_iter().map(entry).collect())
    }

    pub(super) fn status(&self) -> Reply {
        let _turn = self.tenant.turn();
        let state = self.core.state();
        let (leases, waiting) = state.counts();
        Reply::StatusReport(StatusReport {
            connections: self.core.connections.len() as u32,
            leases: leases as u32,
            waiting: waiting as u32,
            devices: usage(&state),
        })
    }
}

fn usage<D: DeviceMemory>(state: &State<D>) -> Vec<DeviceStatus> {
    let entry = |(id, slot): (&DeviceId, &Slot<D>)| {
        let usage = state.manager.usage(*id).unwrap_or_default();
        DeviceStatus {
            uuid: slot.uuid,
            capacity_bytes: usage.capacity_bytes,
            created_bytes: usage.created_bytes,
            live_bytes: usage.live_bytes,
            held_bytes: usage.held_bytes,
            models: usage.models as u32,
            held_models: usage.held_models as u32,
        }
    };
    state.devices.iter().map(entry).collect()
}
