//! Objects in device memory, for the inventory.

use serde::{Deserialize, Serialize};
use tetris_gpu_device::DeviceUuid;
use tetris_gpu_server::Counters;
use tetris_gpu_server::Resident;
use tetris_gpu_server::residency::TenantId;

use super::GpuMirrorStatus;
use crate::report::{GpuStatus, GpuStoreStatus};
use crate::uuid::split_uuid;

/// Most identifiers that are reported for all devices together: 8 MB of text. Devices that come later go
/// short first.
const MAX_RESIDENTS: usize = 131_072;

/// Objects of a store on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreResidents {
    /// The device.
    pub device: DeviceUuid,
    /// The store.
    pub tenant: TenantId,
    /// Identifiers of the objects that have arrived, in hexadecimal and in order.
    pub objects: Vec<String>,
}

/// Formats the objects that a server has on its devices.
pub(super) fn residents(all: Vec<Resident>) -> Vec<StoreResidents> {
    let mut left = MAX_RESIDENTS;
    let residents = all.into_iter().map(|entry| {
        let objects = entry.objects.iter().take(left).map(ToString::to_string);
        let objects: Vec<String> = objects.collect();
        left -= objects.len();
        StoreResidents {
            device: entry.device,
            tenant: entry.tenant,
            objects,
        }
    });
    residents.collect()
}

/// Counts that change whenever objects arrive on a device or leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResidencyMark {
    arrived: u64,
    left: [u64; 4],
    live_bytes: Vec<u64>,
}

impl ResidencyMark {
    /// The counts of a status.
    pub(crate) fn of(status: &GpuMirrorStatus) -> Self {
        let Counters {
            copied_objects,
            evicted,
            dropped_objects,
            damaged_objects,
            failed_transfers,
            ..
        } = status.report.counters;
        let devices = status.report.devices.iter();
        Self {
            arrived: copied_objects,
            left: [evicted, dropped_objects, damaged_objects, failed_transfers],
            live_bytes: devices.map(|device| device.usage.live_bytes).collect(),
        }
    }
}

/// The devices of a status with their objects.
pub(super) fn gpus(status: &GpuMirrorStatus, residents: &[StoreResidents]) -> Vec<GpuStatus> {
    let devices = status.report.devices.iter();
    let reports = devices.map(|device| {
        let here = residents
            .iter()
            .filter(|resident| resident.device == device.uuid);
        let stores = here.filter_map(|resident| {
            let name = status.stores.get(&resident.tenant)?;
            Some(GpuStoreStatus {
                name: split_uuid(name).0.to_owned(),
                objects: resident.objects.clone(),
            })
        });
        GpuStatus {
            uuid: format!("GPU-{}", device.uuid),
            kind: device.name.clone(),
            usable: status.running && device.lost.is_none(),
            total_bytes: device.total_bytes,
            limit_bytes: device.limit_bytes,
            capacity_bytes: device.usage.capacity_bytes,
            created_bytes: device.usage.created_bytes,
            held_bytes: device.usage.held_bytes,
            models: device.usage.models,
            stores: stores.collect(),
        }
    });
    reports.collect()
}
