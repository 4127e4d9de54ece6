//! State of a server and its devices, for metrics.

use std::time::Duration;

use tetris_store_layout::ObjectId;

use super::state::{Slot, State};
use super::{Counters, Server, TemplateReport};
use crate::residency::{DeviceId, TenantId, Usage};
use tetris_gpu_device::{DeviceMemory, DeviceMode, DeviceUuid};

/// State of a server at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// Its counters.
    pub counters: Counters,
    /// Number of connections.
    pub connections: usize,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// The tenants that it serves.
    pub tenants: Vec<TenantReport>,
}

/// State of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceReport {
    /// Its number.
    pub id: DeviceId,
    /// Its UUID.
    pub uuid: DeviceUuid,
    /// The product's name.
    pub name: String,
    /// Mode in which processes may use it.
    pub mode: DeviceMode,
    /// Length of its memory, in bytes.
    pub total_bytes: u64,
    /// Most memory of the mirror there, in bytes. The capacity of its usage is less while other
    /// programs have the memory.
    pub limit_bytes: u64,
    /// Its usage; all zeros if it is lost.
    pub usage: Usage,
    /// Rate of recent long transfers to it, from first to last copy, in bytes per second; `None`
    /// before the first. It is below the link's while the gathering of pages or the device are
    /// slower. The lengths of prefixes follow it.
    pub transfer_bytes_per_sec: Option<u64>,
    /// Kept prefixes of models.
    pub templates: Vec<TemplateReport>,
    /// Number of connections that hold a model on it.
    pub leases: usize,
    /// Group size of copies, in bytes.
    pub group_bytes: u64,
    /// Rate of the link from the host without other work, in bytes per second: configured, or
    /// measured before the server's start; `None` if it is not known.
    pub link_bytes_per_sec: Option<u64>,
    /// Name of the switch between the device and the host; `None` if it is not known.
    pub switch: Option<String>,
    /// Length in bytes up to which a model is light, and leaves first.
    pub light_bytes: u64,
    /// Length of the chunks that exist ahead of need, in bytes. They count as free memory.
    pub spare_bytes: u64,
    /// Length of the objects that are on their way to the device, in bytes.
    pub transfer_bytes: u64,
    /// Length of the stores' pages registered with the driver, and so referenced, in
    /// bytes.
    pub pinned_bytes: u64,
    /// The reason that the driver refused the last registration of pages, so that copies go through
    /// the staging ring; `None` while it refuses none.
    pub unregistered: Option<String>,
    /// The reason the device is lost; `None` while it works.
    pub lost: Option<String>,
    /// Milliseconds since the check that the device's thread has not begun: it copies, or its
    /// driver hangs. `None` without a pending check.
    pub unanswered_ms: Option<u64>,
}

/// Objects of a tenant on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// The device.
    pub device: DeviceUuid,
    /// The tenant.
    pub tenant: TenantId,
    /// The objects that have arrived, in order.
    pub objects: Vec<ObjectId>,
}

/// State of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TenantReport {
    /// The tenant.
    pub tenant: TenantId,
    /// Number of connections that wait for room.
    pub waiting: usize,
    /// Limit of its chunks on each device, in bytes.
    pub quota_bytes: Option<u64>,
    /// Length of its chunks on each device, in bytes.
    pub chunk_bytes: Vec<(DeviceUuid, u64)>,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl<D: DeviceMemory> State<D> {
    /// Changes a tenant's quota.
    pub(super) fn set_quota(&mut self, tenant: TenantId, quota_bytes: Option<u64>) {
        match quota_bytes {
            Some(bytes) => self.manager.set_quota(tenant, bytes),
            None => self.manager.remove_quota(tenant),
        }
    }

    /// Numbers of connections that hold a model and that wait for one.
    pub fn counts(&self) -> (usize, usize) {
        (self.leases.len(), self.waiting.len())
    }

    /// Number of connections that hold a model on this device.
    pub fn leases_on(&self, device: DeviceId) -> usize {
        let leases = self.leases.values();
        leases.filter(|lease| lease.device == device).count()
    }

    /// Number of a tenant's connections that wait for a model.
    pub fn waiting_of(&self, tenant: TenantId) -> usize {
        let waiting = self.waiting.values();
        waiting.filter(|(of, _)| *of == tenant).count()
    }

    /// State of a device.
    pub(super) fn device_report(&self, id: DeviceId, slot: &Slot<D>) -> DeviceReport {
        DeviceReport {
            id,
            uuid: slot.uuid,
            name: slot.name.clone(),
            mode: slot.mode,
            total_bytes: slot.total_bytes,
            limit_bytes: slot.limit_bytes,
            usage: self.manager.usage(id).unwrap_or_default(),
            transfer_bytes_per_sec: self.templates.bandwidth(id),
            templates: self.templates.reports(id, |(device, tenant, key)| {
                self.manager.prefix_usage(*device, *tenant, *key)
            }),
            leases: self.leases_on(id),
            group_bytes: slot.group_bytes,
            link_bytes_per_sec: slot.links.from_host,
            switch: slot.links.switch.clone(),
            light_bytes: self.manager.light_bytes(id),
            spare_bytes: slot.spares.bytes(),
            transfer_bytes: slot.transfers.bytes(),
            pinned_bytes: slot.registrar.used_bytes(),
            unregistered: slot.registrar.refusal(),
            lost: slot.lost.clone(),
            unanswered_ms: slot.checking.map(|since| millis(since.elapsed())),
        }
    }

    fn tenant_report(&self, tenant: TenantId) -> TenantReport {
        let chunks = |(id, slot): (&DeviceId, &Slot<D>)| {
            let bytes = self.manager.created_by(*id, tenant);
            (slot.uuid, bytes)
        };
        TenantReport {
            tenant,
            waiting: self.waiting_of(tenant),
            quota_bytes: self.manager.quota(tenant),
            chunk_bytes: self.devices.iter().map(chunks).collect(),
        }
    }
}

impl<D: DeviceMemory + 'static> Server<D> {
    /// Returns the objects on each device, by tenant. Calls no driver.
    pub fn residents(&self) -> Vec<Resident> {
        let state = self.core.state();
        let devices = state.devices.iter();
        let objects = devices.flat_map(|(id, slot)| {
            let tenants = state.manager.residents(*id).into_iter();
            tenants.map(|(tenant, objects)| Resident {
                device: slot.uuid,
                tenant,
                objects,
            })
        });
        objects.collect()
    }

    /// Returns the state of the server, its devices and its tenants. Calls no driver.
    pub fn report(&self) -> Report {
        let tenants = self.tenants();
        let connections = self.connections();
        let mut state = self.core.state();
        state.sweep();
        let devices = state.devices.iter();
        let devices = devices.map(|(id, slot)| state.device_report(*id, slot));
        let tenants = tenants.into_iter().map(|of| state.tenant_report(of));
        Report {
            counters: self.counters(),
            connections,
            devices: devices.collect(),
            tenants: tenants.collect(),
        }
    }
}
