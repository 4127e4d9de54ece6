//! Kept prefixes of models: objects that stay on a device without a client (B9, B10).

use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;

use super::admit::{NoRoom, Request};
use super::device::{Device, Object, Template, changed};
use super::{Copy, DeviceId, Freed, Manager, ModelKey, ModelSpec, Part, Refusal, TenantId};
use crate::arena::NewChunk;

/// Objects of a kept prefix that the caller must copy. It acts in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filling {
    /// Everything that left the device to make room.
    pub freed: Freed,
    /// Chunks that the caller must create.
    pub created: Vec<NewChunk>,
    /// Objects that the caller must copy, in order of access.
    pub copies: Vec<Copy>,
}

/// State of a kept prefix, in bytes where not said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PrefixUsage {
    /// The model's length.
    pub model_bytes: u64,
    /// Length of the kept objects.
    pub kept_bytes: u64,
    /// Of these, the length of the objects that the device has.
    pub resident_bytes: u64,
}

impl Device {
    /// Number of the tenant's templates that keep each object.
    pub fn kept_counts(&self, tenant: TenantId) -> BTreeMap<ObjectId, usize> {
        let models = (tenant, ModelKey::MIN)..=(tenant, ModelKey::MAX);
        let mut counts = BTreeMap::new();
        for (_, template) in self.templates.range(models) {
            for part in template.spec.parts().iter().take(template.kept) {
                *counts.entry(part.object).or_default() += 1;
            }
        }
        counts
    }

    /// Keeps this number of leading objects of a model; none ends its template.
    pub fn keep(&mut self, tenant: TenantId, spec: &ModelSpec, parts: usize, now_ms: u64) -> Freed {
        let mut freed = Freed::default();
        let name = (tenant, spec.key());
        let parts = parts.min(spec.parts().len());
        if let Some(before) = self.templates.remove(&name) {
            for part in before.spec.parts().iter().take(before.kept) {
                if let Some(object) = self.objects.get_mut(&(tenant, part.object)) {
                    object.kept = object.kept.saturating_sub(1);
                }
            }
            let prefix = before.spec.parts().iter().take(before.kept);
            if parts > 0 {
                self.enter(tenant, spec, parts, before.last_used_ms.max(now_ms));
            }
            let left: Vec<_> = prefix.map(|part| part.object).collect();
            self.drop_ownerless(tenant, &left, &mut freed);
        } else if parts > 0 {
            self.enter(tenant, spec, parts, now_ms);
        }
        self.trim(&mut freed);
        freed
    }

    fn enter(&mut self, tenant: TenantId, spec: &ModelSpec, parts: usize, now_ms: u64) {
        for part in spec.parts().iter().take(parts) {
            if let Some(object) = self.objects.get_mut(&(tenant, part.object)) {
                object.kept += 1;
            }
        }
        let template = Template {
            spec: spec.clone(),
            kept: parts,
            last_used_ms: now_ms,
        };
        self.templates.insert((tenant, spec.key()), template);
    }

    /// Removes objects that no model has and nothing keeps.
    fn drop_ownerless(&mut self, tenant: TenantId, objects: &[ObjectId], freed: &mut Freed) {
        for id in objects {
            let object = self.objects.get(&(tenant, *id));
            if object.is_some_and(|object| object.models.is_empty() && object.is_idle()) {
                self.remove(tenant, id, freed);
                freed.dropped.push((tenant, *id));
            }
        }
    }

    /// Gives up the last kept object of a template. Returns false if none is kept.
    fn shorten(&mut self, name: (TenantId, ModelKey), freed: &mut Freed) -> bool {
        let Some(template) = self.templates.get_mut(&name) else {
            return false;
        };
        let Some(last) = template.kept.checked_sub(1) else {
            return false;
        };
        template.kept = last;
        let part = template.spec.parts().get(last).copied();
        if let Some(part) = part {
            let name = (name.0, part.object);
            let object = self.objects.get_mut(&name);
            let idle = object.is_some_and(|object| {
                object.kept = object.kept.saturating_sub(1);
                object.is_idle()
            });
            if idle {
                self.remove(name.0, &name.1, freed);
                freed.dropped.push(name);
            }
        }
        true
    }

    /// Templates in the order in which their prefixes are given up: the least recently used first.
    pub fn prefixes(&self, tenant: Option<TenantId>) -> Vec<(TenantId, ModelKey)> {
        let templates = self.templates.iter();
        let of_tenant = templates.filter(|((of, _), _)| tenant.is_none_or(|tenant| tenant == *of));
        let mut names: Vec<_> = of_tenant
            .map(|(name, template)| (template.last_used_ms, *name))
            .collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Gives up kept objects, from the ends of the prefixes, while `want_more` returns true after
    /// chunks were released.
    pub fn shorten_while(
        &mut self,
        tenant: Option<TenantId>,
        except: Option<(TenantId, ModelKey)>,
        freed: &mut Freed,
        mut want_more: impl FnMut(&mut Self, &mut Freed) -> bool,
    ) {
        for name in self.prefixes(tenant) {
            let mut released = freed.released.len();
            while Some(name) != except && self.shorten(name, freed) {
                if freed.released.len() > released {
                    if !want_more(self, freed) {
                        return;
                    }
                    released = freed.released.len();
                }
            }
        }
    }

    /// Places the kept objects that the device lacks. After an error the caller must discard the
    /// device. Evicts idle models, but nothing that is kept.
    pub fn fill(
        &mut self,
        tenant: TenantId,
        key: ModelKey,
        quota_bytes: u64,
        now_ms: u64,
    ) -> Result<Filling, Refusal> {
        let Some(template) = self.templates.get(&(tenant, key)).cloned() else {
            return Ok(Filling::default());
        };
        let prefix: Vec<Part> = template.spec.parts().to_vec();
        let prefix = prefix.get(..template.kept).unwrap_or_default();
        let request = Request {
            tenant,
            client: super::ClientId(0),
            spec: &template.spec,
            quota_bytes,
            now_ms,
        };
        self.check_lengths(&request)?;
        let absent = |part: &&Part| !self.objects.contains_key(&(tenant, part.object));
        let missing: Vec<_> = prefix.iter().filter(absent).copied().collect();
        let mut filling = Filling::default();
        if missing.is_empty() {
            return Ok(filling);
        }
        let mut placed = self.place_parts(&request, &missing, None);
        for victim in self.candidates(None) {
            let Err(NoRoom { .. }) = placed else { break };
            if self.is_worth_evicting(victim) {
                self.evict(victim, &mut filling.freed);
                placed = self.place_parts(&request, &missing, None);
            }
        }
        filling.created = placed.map_err(|no_room| self.refusal(&request, &no_room))?;
        self.trim(&mut filling.freed);
        for part in &missing {
            if let Some(place) = self.place_of(tenant, &part.object) {
                let object = part.object;
                filling.copies.push(Copy { object, place });
            }
        }
        Ok(filling)
    }

    /// Length of all kept objects, each once, in bytes.
    pub fn kept_bytes(&self) -> u64 {
        let kept = self.objects.values().filter(|object| object.kept > 0);
        kept.map(|object| object.len).sum()
    }

    fn prefix_usage(&self, tenant: TenantId, template: &Template) -> PrefixUsage {
        let prefix = || template.spec.parts().iter().take(template.kept);
        let here = |part: &&Part| {
            let object = self.objects.get(&(tenant, part.object));
            object.is_some_and(|object: &Object| !object.copying)
        };
        PrefixUsage {
            model_bytes: template.spec.bytes(),
            kept_bytes: prefix().map(|part| part.len).sum(),
            resident_bytes: prefix().filter(here).map(|part| part.len).sum(),
        }
    }
}

impl Manager {
    /// Keeps the first `parts` objects of a model on a device, without a client, until another call
    /// changes it; 0 ends the template. Objects that are here already stay from now on;
    /// [`Self::fill`] places the others.
    pub fn keep(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        spec: &ModelSpec,
        parts: usize,
        now_ms: u64,
    ) -> Freed {
        let device = changed(self.devices.get_mut(&device));
        device.map_or_else(Freed::default, |device| {
            device.keep(tenant, spec, parts, now_ms)
        })
    }

    /// Places the kept objects of a model that the device lacks. Idle models may leave for them.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if there is no room; nothing has changed then.
    pub fn fill(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        key: ModelKey,
        now_ms: u64,
    ) -> Result<Filling, Refusal> {
        let quota_bytes = self.quotas.get(&tenant).copied().unwrap_or(u64::MAX);
        let id = device;
        let device = changed(self.devices.get_mut(&id));
        let device = device.ok_or(Refusal::NoDevice { found: Some(id) })?;
        let mut trial = device.clone();
        let filling = trial.fill(tenant, key, quota_bytes, now_ms)?;
        *device = trial;
        Ok(filling)
    }

    /// Returns true if a template keeps the object.
    pub fn is_kept(&self, device: DeviceId, tenant: TenantId, object: &ObjectId) -> bool {
        let device = self.devices.get(&device);
        let object = device.and_then(|device| device.objects.get(&(tenant, *object)));
        object.is_some_and(|object| object.kept > 0)
    }

    /// Returns true if this number of leading objects of this model, in this order, is kept.
    pub fn keeps(
        &self,
        device: DeviceId,
        tenant: TenantId,
        spec: &ModelSpec,
        parts: usize,
    ) -> bool {
        let device = self.devices.get(&device);
        let template = device.and_then(|device| device.templates.get(&(tenant, spec.key())));
        match template {
            Some(template) => template.kept == parts && template.spec == *spec,
            None => parts == 0,
        }
    }

    /// Objects of a kept prefix that are not on the device, in order.
    pub fn missing_of_prefix(
        &self,
        device: DeviceId,
        tenant: TenantId,
        key: ModelKey,
    ) -> Vec<Part> {
        let Some(device) = self.devices.get(&device) else {
            return Vec::new();
        };
        let Some(template) = device.templates.get(&(tenant, key)) else {
            return Vec::new();
        };
        let prefix = template.spec.parts().iter().take(template.kept);
        let absent = |part: &&Part| !device.objects.contains_key(&(tenant, part.object));
        prefix.filter(absent).copied().collect()
    }

    /// State of a model's kept prefix; `None` without a template.
    pub fn prefix_usage(
        &self,
        device: DeviceId,
        tenant: TenantId,
        key: ModelKey,
    ) -> Option<PrefixUsage> {
        let device = self.devices.get(&device)?;
        let template = device.templates.get(&(tenant, key))?;
        Some(device.prefix_usage(tenant, template))
    }

    /// The templates of a device, the most recently used first: names, objects in order, and the
    /// number of objects kept.
    pub fn templates(&self, device: DeviceId) -> Vec<(TenantId, ModelSpec, usize)> {
        let Some(device) = self.devices.get(&device) else {
            return Vec::new();
        };
        let names = device.prefixes(None).into_iter().rev();
        let template = |name: (TenantId, ModelKey)| {
            let template = device.templates.get(&name)?;
            Some((name.0, template.spec.clone(), template.kept))
        };
        names.filter_map(template).collect()
    }
}
