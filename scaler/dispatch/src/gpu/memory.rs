//! Device memory of one GPU: its resident models, and the objects that they have in common.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{GpuModel, ModelId, ObjectId};

/// An object in device memory. Without sharing each model has its own copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(Option<ModelId>, ObjectId);

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    models: u32,
}

/// A model in device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Time of the last dispatch, in microseconds.
    pub used_us: u64,
    /// Number of runs and copies that need the model to stay.
    pins: u32,
    /// True once all bytes are there.
    pub loaded: bool,
    /// True if no load may evict the model.
    held: bool,
    /// Its objects, sorted.
    objects: Vec<ObjectId>,
}

impl Resident {
    pub(crate) const fn is_pinned(&self) -> bool {
        self.held || self.pins > 0
    }
}

/// Device memory of a GPU.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMemory {
    capacity: u64,
    used: u64,
    sharing: bool,
    objects: BTreeMap<Key, Held>,
    models: BTreeMap<ModelId, Resident>,
}

impl DeviceMemory {
    pub(crate) const fn new(capacity: u64, sharing: bool) -> Self {
        Self {
            capacity,
            used: 0,
            sharing,
            objects: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }

    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    pub(crate) const fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// Makes the record agree with the models that are there, but for those that are pinned. Models
    /// without room in the record stay out of it.
    pub(crate) fn observe(&mut self, now_us: u64, there: &[(ModelId, &GpuModel)]) {
        let resident: BTreeSet<ModelId> = there.iter().map(|&(id, _)| id).collect();
        let known: Vec<ModelId> = self.models.keys().copied().collect();
        for id in known {
            if !resident.contains(&id) {
                if let Some(one) = self.models.get_mut(&id) {
                    one.held = false;
                }
                self.evict(id);
            }
        }
        for &(id, model) in there {
            if !self.models.contains_key(&id) && self.load(now_us, id, model, |_| None).is_some() {
                self.set_loaded(id);
                self.unpin(id);
            }
        }
    }

    pub(crate) fn resident(&self, id: ModelId) -> Option<&Resident> {
        self.models.get(&id)
    }

    pub(crate) fn models(&self) -> impl Iterator<Item = (ModelId, &Resident)> {
        self.models.iter().map(|(&id, model)| (id, model))
    }

    /// Number of parts of all models.
    pub(crate) fn parts(&self) -> usize {
        self.models.values().map(|model| model.objects.len()).sum()
    }

    const fn key(&self, model: ModelId, object: ObjectId) -> Key {
        Key(if self.sharing { None } else { Some(model) }, object)
    }

    /// Number of bytes of the model that are not in this memory.
    pub(crate) fn missing_bytes(&self, id: ModelId, model: &GpuModel) -> u64 {
        if self.models.contains_key(&id) {
            return 0;
        }
        let parts = model.parts.iter();
        parts
            .filter(|part| !self.objects.contains_key(&self.key(id, part.object)))
            .fold(0, |sum: u64, part| sum.saturating_add(part.bytes))
    }

    /// Returns true if the model fits beside those that must stay.
    pub(crate) fn can_hold(&self, id: ModelId, model: &GpuModel) -> bool {
        if self.models.contains_key(&id) {
            return true;
        }
        let pinned = self.models.iter().filter(|(_, model)| model.is_pinned());
        let stays: BTreeSet<Key> = pinned
            .flat_map(|(&owner, model)| {
                let objects = model.objects.iter();
                objects.map(move |&object| self.key(owner, object))
            })
            .collect();
        let kept = stays.iter().filter_map(|key| self.objects.get(key));
        let kept = kept.fold(0, |sum: u64, held| sum.saturating_add(held.bytes));
        let parts = model.parts.iter();
        let added = parts
            .filter(|part| !stays.contains(&self.key(id, part.object)))
            .fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        kept.saturating_add(added) <= self.capacity
    }

    /// Returns true if `bytes` more fit without an eviction.
    pub(crate) const fn has_room(&self, bytes: u64) -> bool {
        self.used.saturating_add(bytes) <= self.capacity
    }

    /// Number of bytes that the eviction of this model would free.
    pub(crate) fn freed_by(&self, id: ModelId) -> u64 {
        let Some(resident) = self.models.get(&id) else {
            return 0;
        };
        resident
            .objects
            .iter()
            .filter_map(|&object| self.objects.get(&self.key(id, object)))
            .filter(|object| object.models == 1)
            .fold(0, |sum: u64, object| sum.saturating_add(object.bytes))
    }

    /// Adds a model that is being loaded, pinned. Calls `victim` for a model to evict until there
    /// is room. Objects that the model shares stay. Returns the evicted models, or nothing if
    /// `victim` found too few.
    pub(crate) fn load(
        &mut self,
        now_us: u64,
        id: ModelId,
        model: &GpuModel,
        mut victim: impl FnMut(&Self) -> Option<ModelId>,
    ) -> Option<Vec<ModelId>> {
        let missing = self.missing_bytes(id, model);
        for part in &model.parts {
            let key = self.key(id, part.object);
            if let Some(held) = self.objects.get_mut(&key) {
                held.models += 1;
            }
        }
        let mut evicted = Vec::new();
        let mut enough = true;
        while !self.has_room(missing) {
            let Some(gone) = victim(self).filter(|&entry| self.evict(entry)) else {
                enough = false;
                break;
            };
            evicted.push(gone);
        }
        let mut objects: Vec<ObjectId> = model.parts.iter().map(|part| part.object).collect();
        objects.sort_unstable();
        if !enough {
            self.release(id, &objects);
            return None;
        }
        for part in &model.parts {
            let key = self.key(id, part.object);
            self.objects.entry(key).or_insert_with(|| {
                self.used += part.bytes;
                Held {
                    bytes: part.bytes,
                    models: 1,
                }
            });
        }
        self.models.insert(
            id,
            Resident {
                used_us: now_us,
                pins: 1,
                loaded: false,
                held: false,
                objects,
            },
        );
        Some(evicted)
    }

    pub(crate) fn set_loaded(&mut self, id: ModelId) {
        if let Some(one) = self.models.get_mut(&id) {
            one.loaded = true;
        }
    }

    /// Keeps a loaded model until [`observe`](Self::observe) finds it gone. Returns false if it is not
    /// there.
    pub(crate) fn hold(&mut self, id: ModelId) -> bool {
        let Some(one) = self.models.get_mut(&id).filter(|model| model.loaded) else {
            return false;
        };
        one.held = true;
        true
    }

    /// Notes a use of the model, and keeps it until it is unpinned.
    pub(crate) fn pin(&mut self, id: ModelId) {
        if let Some(one) = self.models.get_mut(&id) {
            one.pins += 1;
        }
    }

    pub(crate) fn touch(&mut self, now_us: u64, id: ModelId) {
        if let Some(one) = self.models.get_mut(&id) {
            one.used_us = now_us;
        }
    }

    pub(crate) fn unpin(&mut self, id: ModelId) {
        if let Some(one) = self.models.get_mut(&id) {
            one.pins = one.pins.saturating_sub(1);
        }
    }

    /// Removes a model that nothing needs. Returns false if it stays.
    pub(crate) fn evict(&mut self, id: ModelId) -> bool {
        if self.models.get(&id).is_none_or(Resident::is_pinned) {
            return false;
        }
        if let Some(gone) = self.models.remove(&id) {
            self.release(id, &gone.objects);
        }
        true
    }

    fn release(&mut self, id: ModelId, objects: &[ObjectId]) {
        for &object in objects {
            let key = self.key(id, object);
            let Some(held) = self.objects.get_mut(&key) else {
                continue;
            };
            held.models = held.models.saturating_sub(1);
            if held.models == 0 {
                self.used = self.used.saturating_sub(held.bytes);
                self.objects.remove(&key);
            }
        }
    }

    /// Returns a loaded model that has all objects that `model` lacks in `other`.
    pub(crate) fn source_for(
        &self,
        id: ModelId,
        model: &GpuModel,
        other: &Self,
    ) -> Option<ModelId> {
        if self.models.get(&id).is_some_and(|model| model.loaded) {
            return Some(id);
        }
        if !self.sharing {
            return None;
        }
        let missing: Vec<ObjectId> = model
            .parts
            .iter()
            .map(|part| part.object)
            .filter(|&object| !other.objects.contains_key(&other.key(id, object)))
            .collect();
        let mut loaded = self.models.iter().filter(|(_, model)| model.loaded);
        let holder = loaded.find(|(_, model)| {
            let has = |object| model.objects.binary_search(object).is_ok();
            missing.iter().all(has)
        });
        holder.map(|(&id, _)| id)
    }
}
