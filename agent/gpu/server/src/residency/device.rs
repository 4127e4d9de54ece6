//! One device: its objects, its models and their holders.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tetris_store_layout::ObjectId;

use super::{
    ClientId, Config, DeviceId, Failed, Freed, ModelKey, ModelSpec, Part, Released, TenantId, Usage,
};
use crate::arena::{Arena, ChunkId, ObjectPlace};

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub len: u64,
    /// Models on the device that contain the object.
    pub models: BTreeSet<ModelKey>,
    /// Number of these models that a client holds.
    pub held: usize,
    pub copying: bool,
    /// Number of templates that keep the object.
    pub kept: usize,
    /// Number of devices that copy it from here.
    pub pins: usize,
}

impl Object {
    /// Returns true if the object may leave the device.
    pub fn is_idle(&self) -> bool {
        self.held == 0 && self.kept == 0 && !self.copying && self.pins == 0
    }
}

#[derive(Debug, Clone)]
pub(super) struct ResidentModel {
    pub parts: Arc<[Part]>,
    pub bytes: u64,
    pub last_used_ms: u64,
    /// Number of holds of each client.
    pub clients: BTreeMap<ClientId, u64>,
}

/// A model of which a prefix stays on a device.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub spec: ModelSpec,
    /// Number of leading objects kept at the moment.
    pub kept: usize,
    pub last_used_ms: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Device {
    pub id: DeviceId,
    pub capacity_bytes: u64,
    /// Capacity without other programs, in bytes; less than the capacity if none was set.
    pub limit_bytes: u64,
    pub config: Config,
    pub arenas: BTreeMap<TenantId, Arena>,
    pub objects: BTreeMap<(TenantId, ObjectId), Object>,
    pub models: BTreeMap<(TenantId, ModelKey), ResidentModel>,
    /// Models of which a prefix is kept.
    pub templates: BTreeMap<(TenantId, ModelKey), Template>,
    /// Lengths of released chunks whose memory is not free, in bytes.
    pub lingering: BTreeMap<(TenantId, ChunkId), u64>,
    /// Usage since the last change, once it was asked for: clients may ask often, and there can be a
    /// million objects.
    usage: KnownUsage,
}

/// The usage of a device, if it was asked for since the last change. Not a part of its state.
#[derive(Clone, Default)]
struct KnownUsage(OnceCell<Usage>);

impl fmt::Debug for KnownUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownUsage")
    }
}

/// Marks a device as changed.
pub(super) fn changed(device: Option<&mut Device>) -> Option<&mut Device> {
    let device = device?;
    device.usage.0.take();
    Some(device)
}

impl Device {
    pub fn new(id: DeviceId, capacity_bytes: u64, config: Config) -> Self {
        Self {
            id,
            capacity_bytes,
            limit_bytes: 0,
            config,
            arenas: BTreeMap::new(),
            objects: BTreeMap::new(),
            models: BTreeMap::new(),
            templates: BTreeMap::new(),
            lingering: BTreeMap::new(),
            usage: KnownUsage::default(),
        }
    }

    /// Length of all chunks, in bytes, with those whose memory lingers.
    pub fn created_bytes(&self) -> u64 {
        let arenas: u64 = self.arenas.values().map(Arena::created_bytes).sum();
        let lingering: u64 = self.lingering.values().sum();
        arenas.saturating_add(lingering)
    }

    /// Length of a tenant's chunks, in bytes, with those whose memory lingers.
    pub fn created_by(&self, tenant: TenantId) -> u64 {
        let arena = self.arenas.get(&tenant).map_or(0, Arena::created_bytes);
        let chunks = (tenant, ChunkId(u64::MIN))..=(tenant, ChunkId(u64::MAX));
        let lingering: u64 = self.lingering.range(chunks).map(|(_, bytes)| *bytes).sum();
        arena.saturating_add(lingering)
    }

    /// Number of bytes of `spec` on this device.
    pub fn resident_bytes(&self, tenant: TenantId, spec: &ModelSpec) -> u64 {
        let here = |part: &&Part| self.objects.contains_key(&(tenant, part.object));
        spec.parts().iter().filter(here).map(|part| part.len).sum()
    }

    pub fn place_of(&self, tenant: TenantId, object: &ObjectId) -> Option<ObjectPlace> {
        self.arenas.get(&tenant)?.place_of(object)
    }

    /// Records that `client` holds the model. Those of its objects that are here count as held.
    pub fn hold(&mut self, tenant: TenantId, client: ClientId, spec: &ModelSpec, now_ms: u64) {
        let key = spec.key();
        let model = self
            .models
            .entry((tenant, key))
            .or_insert_with(|| ResidentModel {
                parts: spec.shared_parts(),
                bytes: spec.bytes(),
                last_used_ms: now_ms,
                clients: BTreeMap::new(),
            });
        if let Some(template) = self.templates.get_mut(&(tenant, key)) {
            template.last_used_ms = template.last_used_ms.max(now_ms);
        }
        let first = model.clients.is_empty();
        *model.clients.entry(client).or_default() += 1;
        model.last_used_ms = model.last_used_ms.max(now_ms);
        for part in spec.parts() {
            if let Some(object) = self.objects.get_mut(&(tenant, part.object)) {
                object.models.insert(key);
                object.held += usize::from(first);
            }
        }
    }

    /// Removes one hold of `client`, or all of them, from a model. Returns true if there was one.
    pub fn let_go(
        &mut self,
        tenant: TenantId,
        client: ClientId,
        key: ModelKey,
        all: bool,
        now_ms: u64,
    ) -> bool {
        let Some(model) = self.models.get_mut(&(tenant, key)) else {
            return false;
        };
        let Some(holds) = model.clients.get_mut(&client) else {
            return false;
        };
        *holds -= 1;
        if all || *holds == 0 {
            model.clients.remove(&client);
        }
        model.last_used_ms = model.last_used_ms.max(now_ms);
        if model.clients.is_empty() {
            for part in Arc::clone(&model.parts).iter() {
                if let Some(object) = self.objects.get_mut(&(tenant, part.object)) {
                    object.held = object.held.saturating_sub(1);
                }
            }
        }
        true
    }

    /// Removes an object from the device. Its models stay.
    pub fn remove(&mut self, tenant: TenantId, id: &ObjectId, freed: &mut Freed) -> Option<Object> {
        let object = self.objects.remove(&(tenant, *id))?;
        let removed = self.arenas.get_mut(&tenant)?.remove(id)?;
        if removed.released {
            let chunk = removed.place.chunk;
            freed.released.push(Released { tenant, chunk });
        }
        Some(object)
    }

    /// Records the end of a copy. `None` if the object was not being copied.
    pub fn copied(&mut self, tenant: TenantId, id: &ObjectId) -> Option<Freed> {
        let object = self.objects.get_mut(&(tenant, *id))?;
        std::mem::replace(&mut object.copying, false).then_some(())?;
        let mut freed = Freed::default();
        if object.is_idle() {
            // A template that was given up while its object was on its way.
            if object.models.is_empty() {
                let id = *id;
                self.remove(tenant, &id, &mut freed);
                freed.dropped.push((tenant, id));
            }
            self.trim(&mut freed);
        }
        Some(freed)
    }

    /// Removes objects whose copies failed. Clients of their models no longer hold them.
    pub fn failed(&mut self, tenant: TenantId, objects: &[ObjectId], now_ms: u64) -> Failed {
        let copying = |id: &&ObjectId| {
            let object = self.objects.get(&(tenant, **id));
            object.is_some_and(|object| object.copying)
        };
        let failed: Vec<_> = objects.iter().filter(copying).copied().collect();
        self.lose(tenant, &failed, now_ms)
    }

    /// Removes objects, even if clients hold them. Clients of their models no longer hold these.
    pub fn lose(&mut self, tenant: TenantId, objects: &[ObjectId], now_ms: u64) -> Failed {
        let mut failed = Failed::default();
        for id in objects {
            let concerned = self.remove(tenant, id, &mut failed.freed);
            for key in concerned.into_iter().flat_map(|object| object.models) {
                let clients = self.models.get(&(tenant, key));
                let clients: Vec<_> = clients
                    .into_iter()
                    .flat_map(|model| model.clients.keys().copied())
                    .collect();
                for client in clients {
                    self.let_go(tenant, client, key, true, now_ms);
                    failed.clients.push((client, key));
                }
            }
        }
        self.forget_absent_models();
        self.trim(&mut failed.freed);
        failed
    }

    /// Forgets models without objects on the device and without clients.
    pub fn forget_absent_models(&mut self) {
        let objects = &self.objects;
        self.models.retain(|(tenant, _), model| {
            let here = |part: &Part| objects.contains_key(&(*tenant, part.object));
            !model.clients.is_empty() || model.parts.iter().any(here)
        });
    }

    /// Returns the objects that are not being copied, by tenant and in order.
    pub fn residents(&self) -> Vec<(TenantId, Vec<ObjectId>)> {
        let mut all: BTreeMap<TenantId, Vec<ObjectId>> = BTreeMap::new();
        for ((tenant, id), object) in &self.objects {
            if !object.copying {
                all.entry(*tenant).or_default().push(*id);
            }
        }
        all.into_iter().collect()
    }

    pub fn usage(&self) -> Usage {
        *self.usage.0.get_or_init(|| self.count_usage())
    }

    fn count_usage(&self) -> Usage {
        let in_use = |object: &&Object| object.held > 0 || object.copying;
        let in_use = self.objects.values().filter(in_use);
        let live = self.arenas.values().map(|arena| arena.stats().live_bytes);
        let used = self
            .models
            .values()
            .filter(|model| !model.clients.is_empty());
        Usage {
            capacity_bytes: self.capacity_bytes,
            created_bytes: self.created_bytes(),
            lingering_bytes: self.lingering.values().sum(),
            live_bytes: live.sum(),
            held_bytes: in_use.map(|object| object.len).sum(),
            kept_bytes: self.kept_bytes(),
            models: self.models.len(),
            held_models: used.count(),
        }
    }
}
