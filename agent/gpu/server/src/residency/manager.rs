//! All devices of a node.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;

use super::admit::Request;
use super::device::{Device, changed};
use super::{
    Admission, ClientId, Config, DeviceId, Failed, Freed, ModelKey, ModelSpec, Part, Refusal,
    TenantId, Usage,
};
use crate::arena::{ChunkId, ObjectPlace};

/// Residency of models on the devices of a node.
#[derive(Debug, Clone)]
pub struct Manager {
    pub(super) config: Config,
    pub(super) devices: BTreeMap<DeviceId, Device>,
    /// Limit of a tenant's chunks on each device, in bytes.
    pub(super) quotas: BTreeMap<TenantId, u64>,
}

impl Manager {
    /// Creates a node without devices.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            devices: BTreeMap::new(),
            quotas: BTreeMap::new(),
        }
    }

    /// Adds a device with a limit of `capacity_bytes`, or changes its limit. A lower limit evicts
    /// nothing; see [`Self::shrink`].
    pub fn set_capacity(&mut self, device: DeviceId, capacity_bytes: u64) {
        let config = self.config;
        let new = || Device::new(device, capacity_bytes, config);
        let entry = self.devices.entry(device).or_insert_with(new);
        if let Some(device) = changed(Some(entry)) {
            device.capacity_bytes = capacity_bytes;
        }
    }

    /// Sets the capacity that a device has when no other program uses its memory: a model above the
    /// present capacity and within this is refused for now, not for good.
    pub fn set_limit(&mut self, device: DeviceId, limit_bytes: u64) {
        if let Some(device) = changed(self.devices.get_mut(&device)) {
            device.limit_bytes = limit_bytes;
        }
    }

    /// Forgets a lost device and everything on it. Returns the clients and the models that they
    /// held there.
    pub fn remove_device(&mut self, device: DeviceId) -> Vec<(ClientId, ModelKey)> {
        let models = self.devices.remove(&device).map(|device| device.models);
        let models = models.into_iter().flatten();
        models
            .flat_map(|((_, key), model)| {
                model.clients.into_keys().map(move |client| (client, key))
            })
            .collect()
    }

    /// Limits a tenant's chunks on each device, in bytes. A tenant without a quota may use the
    /// whole device.
    pub fn set_quota(&mut self, tenant: TenantId, bytes: u64) {
        self.quotas.insert(tenant, bytes);
    }

    /// Removes a tenant's quota.
    pub fn remove_quota(&mut self, tenant: TenantId) {
        self.quotas.remove(&tenant);
    }

    /// Returns a tenant's quota in bytes, if it has one.
    pub fn quota(&self, tenant: TenantId) -> Option<u64> {
        self.quotas.get(&tenant).copied()
    }

    /// Length of a tenant's chunks on a device, in bytes.
    pub fn created_by(&self, device: DeviceId, tenant: TenantId) -> u64 {
        let device = self.devices.get(&device);
        device.map_or(0, |device| device.created_by(tenant))
    }

    /// Admits a model to a device for `client`, which holds it from then on. `on` chooses the
    /// device; without it B7 does.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] of the device, or the most useful one if several devices refuse.
    pub fn admit(
        &mut self,
        tenant: TenantId,
        client: ClientId,
        spec: &ModelSpec,
        on: Option<DeviceId>,
        now_ms: u64,
    ) -> Result<Admission, Refusal> {
        let quota_bytes = self.quotas.get(&tenant).copied().unwrap_or(u64::MAX);
        let request = Request {
            tenant,
            client,
            spec,
            quota_bytes,
            now_ms,
        };
        let order = self.order(tenant, spec, on);
        let mut refusal = Refusal::NoDevice { found: on };
        let without = order.iter().map(|id| (false, id));
        for (may_evict, id) in without.chain(order.iter().map(|id| (true, id))) {
            let device = changed(self.devices.get_mut(id));
            let Some(device) = device else {
                continue;
            };
            let admitted = if may_evict {
                device.admit_with_evictions(&request)
            } else {
                device.admit(&request)
            };
            match admitted {
                Ok(admission) => return Ok(admission),
                Err(found) if may_evict => refusal = refusal.or(found),
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    /// Devices in order of the model's bytes on them, then of their free memory (B7).
    fn order(&self, tenant: TenantId, spec: &ModelSpec, on: Option<DeviceId>) -> Vec<DeviceId> {
        let devices = self.devices.values();
        let mut order: Vec<_> = devices
            .filter(|device| on.is_none_or(|on| on == device.id))
            .map(|device| {
                let free = device.capacity_bytes.saturating_sub(device.created_bytes());
                let resident = device.resident_bytes(tenant, spec);
                (Reverse(resident), Reverse(free), device.id)
            })
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(.., id)| id).collect()
    }

    /// Records that an object has been copied. `None` if it was not being copied. If no one holds
    /// it any more, idle objects may leave (B6).
    pub fn copied(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
    ) -> Option<Freed> {
        changed(self.devices.get_mut(&device))?.copied(tenant, object)
    }

    /// Records that objects could not be copied, or that their chunks could not be created. Ignores
    /// objects that were not being copied.
    pub fn failed(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        objects: &[ObjectId],
        now_ms: u64,
    ) -> Failed {
        let device = changed(self.devices.get_mut(&device));
        let failed = device.map(|device| device.failed(tenant, objects, now_ms));
        failed.unwrap_or_default()
    }

    /// Removes an object whose bytes on the device are not its own any more, even if clients hold
    /// it. Ignores an object that is being copied.
    pub fn damaged(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        object: ObjectId,
        now_ms: u64,
    ) -> Failed {
        if self.ready_place(device, tenant, &object).is_none() {
            return Failed::default();
        }
        let device = changed(self.devices.get_mut(&device));
        let failed = device.map(|device| device.lose(tenant, &[object], now_ms));
        failed.unwrap_or_default()
    }

    /// Counts a chunk of `bytes` that was released and whose memory is not free (B8).
    pub fn linger(&mut self, device: DeviceId, tenant: TenantId, chunk: ChunkId, bytes: u64) {
        if let Some(device) = changed(self.devices.get_mut(&device)) {
            device.lingering.insert((tenant, chunk), bytes);
        }
    }

    /// Counts the chunk no longer: its memory is free.
    pub fn linger_no_longer(&mut self, device: DeviceId, tenant: TenantId, chunk: ChunkId) {
        if let Some(device) = changed(self.devices.get_mut(&device)) {
            device.lingering.remove(&(tenant, chunk));
        }
    }

    /// Number of bytes by which the chunks on a device, or the tenant's there, exceed what they may
    /// take: memory counted on lingers.
    pub fn excess_bytes(&self, device: DeviceId, tenant: TenantId) -> u64 {
        let Some(found) = self.devices.get(&device) else {
            return 0;
        };
        let quota = self.quotas.get(&tenant).copied().unwrap_or(u64::MAX);
        let of_device = found.created_bytes().saturating_sub(found.capacity_bytes);
        of_device.max(found.created_by(tenant).saturating_sub(quota))
    }

    /// Releases one hold of a client on a model. `None` if it had none.
    pub fn release(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        client: ClientId,
        model: ModelKey,
        now_ms: u64,
    ) -> Option<Freed> {
        let device = changed(self.devices.get_mut(&device))?;
        let mut freed = Freed::default();
        device
            .let_go(tenant, client, model, false, now_ms)
            .then(|| device.trim(&mut freed))?;
        Some(freed)
    }

    /// Releases everything that a disconnected client held, on all devices.
    pub fn disconnect(&mut self, client: ClientId, now_ms: u64) -> Vec<(DeviceId, Freed)> {
        let mut all = Vec::new();
        for device in self
            .devices
            .values_mut()
            .filter_map(|device| changed(Some(device)))
        {
            let models = device.models.iter();
            let models_of_client = models.filter(|(_, model)| model.clients.contains_key(&client));
            let names: Vec<_> = models_of_client.map(|(name, _)| *name).collect();
            for (tenant, model) in names {
                device.let_go(tenant, client, model, true, now_ms);
            }
            let mut freed = Freed::default();
            device.trim(&mut freed);
            if freed != Freed::default() {
                all.push((device.id, freed));
            }
        }
        all
    }

    /// Evicts idle models (B5), then kept prefixes (B9), until the chunks on a device take at most
    /// `bytes`, or nothing idle is left.
    pub fn shrink(&mut self, device: DeviceId, bytes: u64) -> Freed {
        let mut freed = Freed::default();
        let Some(device) = changed(self.devices.get_mut(&device)) else {
            return freed;
        };
        for victim in device.candidates(None) {
            if device.created_bytes() <= bytes {
                break;
            }
            if device.is_worth_evicting(victim) {
                device.evict(victim, &mut freed);
            }
        }
        if device.created_bytes() > bytes {
            device.shorten_while(None, None, &mut freed, |device, _| {
                device.created_bytes() > bytes
            });
        }
        device.trim(&mut freed);
        freed
    }

    /// Position of an object, once it has been copied.
    pub fn ready_place(
        &self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
    ) -> Option<ObjectPlace> {
        let device = self.devices.get(&device)?;
        let state = device.objects.get(&(tenant, *object))?;
        let place = device.place_of(tenant, object);
        place.filter(|_| !state.copying)
    }

    /// The object of this number among those that have been copied to a device, counted anew from 0
    /// at the end; `None` without any.
    pub fn ready_object(&self, device: DeviceId, number: u64) -> Option<(TenantId, ObjectId)> {
        let objects = &self.devices.get(&device)?.objects;
        let ready = || objects.iter().filter(|(_, object)| !object.copying);
        let count = ready().count() as u64;
        let index = number.checked_rem(count)?;
        ready().nth(index as usize).map(|(name, _)| *name)
    }

    /// Length of a tenant's chunk in bytes; `None` once the chunk is empty.
    pub fn chunk_bytes(&self, device: DeviceId, tenant: TenantId, chunk: ChunkId) -> Option<u64> {
        let arena = self.devices.get(&device)?.arenas.get(&tenant)?;
        arena.chunk_bytes(chunk)
    }

    /// Objects that an admission at this moment would copy: those that the chosen device lacks.
    pub fn missing(&self, tenant: TenantId, spec: &ModelSpec, on: Option<DeviceId>) -> Vec<Part> {
        let order = self.order(tenant, spec, on);
        let device = order.first().and_then(|id| self.devices.get(id));
        let here = |part: &&Part| {
            device.is_some_and(|device| device.objects.contains_key(&(tenant, part.object)))
        };
        let parts = spec.parts().iter();
        parts.filter(|part| !here(part)).copied().collect()
    }

    /// Returns the objects that have arrived on a device, by tenant and in order.
    pub fn residents(&self, device: DeviceId) -> Vec<(TenantId, Vec<ObjectId>)> {
        let device = self.devices.get(&device);
        device.map_or_else(Vec::new, Device::residents)
    }

    /// Returns the usage of a device.
    pub fn usage(&self, device: DeviceId) -> Option<Usage> {
        self.devices.get(&device).map(Device::usage)
    }

    /// As [`Self::device_of`].
    pub(super) fn device_of_mut(&mut self, device: DeviceId) -> Option<&mut Device> {
        changed(self.devices.get_mut(&device))
    }

    /// A device.
    pub(super) fn device_of(&self, device: DeviceId) -> Option<&Device> {
        self.devices.get(&device)
    }

    #[cfg(test)]
    pub(super) fn device(&self, device: DeviceId) -> &Device {
        &self.devices[&device]
    }
}
