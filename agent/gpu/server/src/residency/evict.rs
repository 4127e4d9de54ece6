//! Eviction: the models and objects that leave a device, and their order (B5, B6).

use std::cmp::Reverse;

use tetris_store_layout::ObjectId;

use super::device::Device;
use super::{Evicted, Freed, TenantId};
use crate::arena::{Arena, ChunkId};

/// A chunk with idle objects only.
struct IdleChunk {
    id: ChunkId,
    bytes: u64,
    live_bytes: u64,
}

impl Device {
    /// Idle models in order of eviction, of `tenant` or of all tenants.
    pub fn candidates(&self, tenant: Option<TenantId>) -> Vec<Evicted> {
        let idle = self.models.iter().filter(|((owner, _), model)| {
            tenant.is_none_or(|tenant| tenant == *owner) && model.clients.is_empty()
        });
        let mut candidates: Vec<_> = idle.collect();
        candidates.sort_by_key(|(name, model)| {
            let heavy = model.bytes > self.config.light_bytes;
            (heavy, model.last_used_ms, **name)
        });
        let names = candidates.into_iter().map(|(name, _)| *name);
        names
            .map(|(tenant, model)| Evicted { tenant, model })
            .collect()
    }

    /// Returns true if at least one object is not held and none is being copied. Evicting a model
    /// whose objects are all held would free nothing.
    pub fn is_worth_evicting(&self, victim: Evicted) -> bool {
        let Some(model) = self.models.get(&(victim.tenant, victim.model)) else {
            return false;
        };
        let mut any_idle = false;
        for part in model.parts.iter() {
            if let Some(object) = self.objects.get(&(victim.tenant, part.object)) {
                if object.copying {
                    return false;
                }
                any_idle |= object.is_idle();
            }
        }
        any_idle
    }

    /// Removes an idle model, and those of its objects that belong to no other model here.
    pub fn evict(&mut self, victim: Evicted, freed: &mut Freed) {
        let Some(model) = self.models.remove(&(victim.tenant, victim.model)) else {
            return;
        };
        for part in model.parts.iter() {
            let Some(object) = self.objects.get_mut(&(victim.tenant, part.object)) else {
                continue;
            };
            object.models.remove(&victim.model);
            if object.models.is_empty() && object.is_idle() {
                self.remove(victim.tenant, &part.object, freed);
            }
        }
        freed.evicted.push(victim);
    }

    /// Drops idle objects from the emptiest chunks until the waste in idle chunks is within its
    /// limit (B6).
    pub fn trim(&mut self, freed: &mut Freed) {
        let tenants: Vec<_> = self.arenas.keys().copied().collect();
        for tenant in tenants {
            while let Some(chunk) = self.too_empty(tenant) {
                let objects = self
                    .arenas
                    .get(&tenant)
                    .map(|arena| arena.objects_in(chunk));
                let objects: Vec<ObjectId> = objects.into_iter().flatten().collect();
                for object in objects {
                    self.remove(tenant, &object, freed);
                    freed.dropped.push((tenant, object));
                }
            }
        }
        self.forget_absent_models();
    }

    /// The emptiest idle chunk of an arena whose idle chunks exceed the waste limit.
    fn too_empty(&self, tenant: TenantId) -> Option<ChunkId> {
        let arena = self.arenas.get(&tenant)?;
        // Idle chunks waste at most as much as all chunks, so this test usually suffices.
        if arena.stats().waste_bytes() <= self.config.arena.waste_limit(0) {
            return None;
        }
        let idle = self.idle_chunks(tenant, arena);
        let live: u64 = idle.iter().map(|chunk| chunk.live_bytes).sum();
        let bytes: u64 = idle.iter().map(|chunk| chunk.bytes).sum();
        if bytes - live <= self.config.arena.waste_limit(live) {
            return None;
        }
        let share = |chunk: &&IdleChunk| {
            let parts = u128::from(chunk.live_bytes) << 32;
            (
                parts / u128::from(chunk.bytes.max(1)),
                Reverse(chunk.bytes),
                chunk.id,
            )
        };
        idle.iter().min_by_key(share).map(|chunk| chunk.id)
    }

    fn idle_chunks(&self, tenant: TenantId, arena: &Arena) -> Vec<IdleChunk> {
        let idle = |object: ObjectId| {
            let object = self.objects.get(&(tenant, object));
            object.is_none_or(super::device::Object::is_idle)
        };
        let chunks = arena
            .chunks()
            .filter(|(id, ..)| arena.objects_in(*id).all(idle));
        let chunk = |(id, bytes, live_bytes)| IdleChunk {
            id,
            bytes,
            live_bytes,
        };
        chunks.map(chunk).collect()
    }
}
