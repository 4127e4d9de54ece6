//! All devices of a node.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;

use super::admit::Request;
use super::device::Device;
use super::{
    Admission, ClientId, Config, DeviceId, Failed, Freed, ModelKey, ModelSpec, Part, Refusal,
    TenantId, Usage,
};
use crate::arena::{ChunkId, Place};

/// What is on which device.
#[derive(Debug, Clone)]
pub struct Manager {
    config: Config,
    devices: BTreeMap<DeviceId, Device>,
    /// Bytes of chunks that a tenant may have on each device.
    quotas: BTreeMap<TenantId, u64>,
}

impl Manager {
    /// A node without devices.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            devices: BTreeMap::new(),
            quotas: BTreeMap::new(),
        }
    }

    /// Adds a device of which the mirror may take `capacity_bytes`, or changes how much it may take. What is held stays when
    /// that is less than before; see [`Self::shrink`].
    pub fn set_capacity(&mut self, device: DeviceId, capacity_bytes: u64) {
        let config = self.config;
        let new = || Device::new(device, capacity_bytes, config);
        self.devices
            .entry(device)
            .or_insert_with(new)
            .capacity_bytes = capacity_bytes;
    }

    /// Forgets a device that is gone, with everything on it. Returns who held what there.
    pub fn remove_device(&mut self, device: DeviceId) -> Vec<(ClientId, ModelKey)> {
        let models = self.devices.remove(&device).map(|device| device.models);
        let models = models.into_iter().flatten();
        models
            .flat_map(|((_, key), model)| {
                model.clients.into_keys().map(move |client| (client, key))
            })
            .collect()
    }

    /// Bounds what a tenant's chunks may take on each device. A tenant without a quota may take everything.
    pub fn set_quota(&mut self, tenant: TenantId, bytes: u64) {
        self.quotas.insert(tenant, bytes);
    }

    /// Lets a tenant take everything.
    pub fn remove_quota(&mut self, tenant: TenantId) {
        self.quotas.remove(&tenant);
    }

    /// A tenant's quota, if it has one.
    pub fn quota(&self, tenant: TenantId) -> Option<u64> {
        self.quotas.get(&tenant).copied()
    }

    /// Bytes of a tenant's chunks on a device.
    pub fn created_by(&self, device: DeviceId, tenant: TenantId) -> u64 {
        let device = self.devices.get(&device);
        device.map_or(0, |device| device.created_by(tenant))
    }

    /// Puts a model on a device for `client`, which holds it from then on. `on` chooses the device, else B7 does.
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
        // What is there as a whole needs no trial: nothing is placed, so nothing can fail half-way.
        if let Some(device) = order.first().and_then(|id| self.devices.get_mut(id))
            && device.has_all(tenant, spec)
        {
            return device.admit(&request, false);
        }
        let mut refusal = Refusal::NoDevice { found: on };
        let without = order.iter().map(|id| (false, id));
        for (may_evict, id) in without.chain(order.iter().map(|id| (true, id))) {
            match self.try_on(*id, &request, may_evict) {
                Ok(admission) => return Ok(admission),
                Err(found) if may_evict => refusal = refusal.or(found),
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    /// All or nothing (B2): what does not work out is thrown away.
    fn try_on(
        &mut self,
        id: DeviceId,
        request: &Request<'_>,
        may_evict: bool,
    ) -> Result<Admission, Refusal> {
        let device = self.devices.get_mut(&id);
        let device = device.ok_or(Refusal::NoDevice { found: Some(id) })?;
        let mut trial = device.clone();
        let admission = trial.admit(request, may_evict)?;
        *device = trial;
        Ok(admission)
    }

    /// Devices by what they have of the model, then by what they have free (B7).
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

    /// An object has been copied. `None` if it was not being copied. Where everybody who wanted it has gone meanwhile,
    /// something may leave (B6).
    pub fn copied(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
    ) -> Option<Freed> {
        self.devices.get_mut(&device)?.copied(tenant, object)
    }

    /// Objects could not be copied, or their chunks not be created. Objects that were not being copied are left alone.
    pub fn failed(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        objects: &[ObjectId],
        now_ms: u64,
    ) -> Failed {
        let device = self.devices.get_mut(&device);
        let failed = device.map(|device| device.failed(tenant, objects, now_ms));
        failed.unwrap_or_default()
    }

    /// A client gives up one hold on a model. `None` if it had none.
    pub fn release(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        client: ClientId,
        model: ModelKey,
        now_ms: u64,
    ) -> Option<Freed> {
        let device = self.devices.get_mut(&device)?;
        let mut freed = Freed::default();
        device
            .let_go(tenant, client, model, false, now_ms)
            .then(|| device.trim(&mut freed))?;
        Some(freed)
    }

    /// A client is gone: it holds nothing any more, on any device.
    pub fn disconnect(&mut self, client: ClientId, now_ms: u64) -> Vec<(DeviceId, Freed)> {
        let mut all = Vec::new();
        for device in self.devices.values_mut() {
            let held = device.models.iter();
            let held = held.filter(|(_, model)| model.clients.contains_key(&client));
            let held: Vec<_> = held.map(|(name, _)| *name).collect();
            for (tenant, model) in held {
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

    /// Evicts idle models (B5) until the chunks on a device take at most `bytes`, or nothing idle is left.
    pub fn shrink(&mut self, device: DeviceId, bytes: u64) -> Freed {
        let mut freed = Freed::default();
        let Some(device) = self.devices.get_mut(&device) else {
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
        device.trim(&mut freed);
        freed
    }

    /// Where an object is, once it has been copied.
    pub fn ready_place(
        &self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
    ) -> Option<Place> {
        let device = self.devices.get(&device)?;
        let state = device.objects.get(&(tenant, *object))?;
        let place = device.place_of(tenant, object);
        place.filter(|_| !state.copying)
    }

    /// The length of a tenant's chunk in bytes, as long as something has a place in it.
    pub fn chunk_bytes(&self, device: DeviceId, tenant: TenantId, chunk: ChunkId) -> Option<u64> {
        let arena = self.devices.get(&device)?.arenas.get(&tenant)?;
        arena.chunk_bytes(chunk)
    }

    /// What would have to be copied for an admission at this moment: objects that the device it would go to has not got.
    pub fn missing(&self, tenant: TenantId, spec: &ModelSpec, on: Option<DeviceId>) -> Vec<Part> {
        let order = self.order(tenant, spec, on);
        let device = order.first().and_then(|id| self.devices.get(id));
        let here = |part: &&Part| {
            device.is_some_and(|device| device.objects.contains_key(&(tenant, part.object)))
        };
        let parts = spec.parts().iter();
        parts.filter(|part| !here(part)).copied().collect()
    }

    /// How a device is used.
    pub fn usage(&self, device: DeviceId) -> Option<Usage> {
        self.devices.get(&device).map(Device::usage)
    }

    #[cfg(test)]
    pub(super) fn device(&self, device: DeviceId) -> &Device {
        &self.devices[&device]
    }
}
