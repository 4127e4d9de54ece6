//! Templates: prefixes of models that clients wish to stay on the devices ([`crate::template`]).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tetris_store_layout::{ObjectId, ObjectRef};

use super::TemplateConfig;
use super::pool::Pool;
use super::source::Sources;
use crate::residency::{DeviceId, ModelKey, ModelSpec, PrefixUsage, TenantId};
use crate::template::{Demand, Estimate, allocate, prefix_bytes};

/// Maximum number of objects of all models that a tenant wishes to stay on a device: those of four of the largest
/// models, or of hundreds of usual ones. The record of an object takes some 150 bytes.
const MOST_OBJECTS: usize = 4 * ModelSpec::MAX_PARTS;

/// State of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TemplateReport {
    /// Its tenant.
    pub tenant: TenantId,
    /// Key of the model, in hexadecimal digits.
    pub model: String,
    /// Time to the first token, in microseconds: measured by clients, or the configured one.
    pub ttft_us: u64,
    /// Length of the prefix by equation (1), in bytes.
    pub wanted_bytes: u64,
    /// State of the kept prefix.
    pub usage: PrefixUsage,
}

/// A tenant's model on a device.
pub(super) type TemplateName = (DeviceId, TenantId, ModelKey);

/// A client's wish for a prefix.
pub(super) struct Wish {
    /// The model, with its objects in the order of first use.
    pub spec: ModelSpec,
    /// Its objects in the store.
    pub objects: Arc<BTreeMap<ObjectId, ObjectRef>>,
    pub pool: Arc<Pool>,
    /// Limit of the prefix in bytes.
    pub most_bytes: u64,
}

/// A wish with the facts that decide about its prefix.
struct Template {
    wish: Wish,
    /// Measured times to the first token, in microseconds.
    ttft_us: Estimate,
    /// Number of the last wish or use: later ones come first when the budget does not suffice.
    recency: u64,
}

/// Wishes for prefixes, and the measurements that decide about their lengths.
#[derive(Default)]
pub(super) struct Templates {
    config: TemplateConfig,
    all: BTreeMap<TemplateName, Template>,
    /// Measured bytes per second of each device's transfers.
    bandwidth: BTreeMap<DeviceId, Estimate>,
    recency: u64,
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Templates({})", self.all.len())
    }
}

impl Templates {
    pub fn new(config: TemplateConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Returns true if the configuration lets any prefix stay.
    pub fn are_kept(&self) -> bool {
        self.config.budget_bytes > 0
    }

    /// Adds a wish, or replaces it: a later client may know the order of use better. `ttft_us` is a
    /// measured time to the first token in microseconds; 0: there is none. Returns the models of the tenant's oldest
    /// wishes, which are dropped where there are too many.
    pub fn wish(&mut self, name: TemplateName, wish: Wish, ttft_us: u64) -> Vec<ModelSpec> {
        self.recency += 1;
        let before = self.all.remove(&name);
        let mut estimate = before.map(|template| template.ttft_us).unwrap_or_default();
        if ttft_us > 0 {
            estimate.add(ttft_us);
        }
        let template = Template {
            wish,
            ttft_us: estimate,
            recency: self.recency,
        };
        self.all.insert(name, template);
        let (device, tenant, _) = name;
        let mut dropped = Vec::new();
        while let Some(oldest) = self.oldest_of_too_many(device, tenant) {
            dropped.extend(self.remove(&oldest));
        }
        dropped
    }

    /// The oldest wish of a tenant on a device, if all of them have too many objects.
    fn oldest_of_too_many(&self, device: DeviceId, tenant: TenantId) -> Option<TemplateName> {
        let is_own = |name: &TemplateName| (name.0, name.1) == (device, tenant);
        let of_tenant = || self.all.iter().filter(|(name, _)| is_own(name));
        let objects: usize = of_tenant().map(|(_, it)| it.wish.objects.len()).sum();
        let (oldest, _) = of_tenant().min_by_key(|(_, template)| template.recency)?;
        (objects > MOST_OBJECTS).then_some(*oldest)
    }

    /// Records that a client uses a model: its prefix comes before others when the budget does not
    /// suffice for all.
    pub fn uses(&mut self, name: &TemplateName) {
        if let Some(template) = self.all.get_mut(name) {
            self.recency += 1;
            template.recency = self.recency;
        }
    }

    /// Removes a wish. Returns its model.
    pub fn remove(&mut self, name: &TemplateName) -> Option<ModelSpec> {
        let template = self.all.remove(name)?;
        Some(template.wish.spec)
    }

    /// Removes a tenant's wishes. Returns their models with their devices.
    pub fn remove_tenant(&mut self, tenant: TenantId) -> Vec<(DeviceId, ModelSpec)> {
        let removed = self.all.extract_if(.., |(_, of, _), _| *of == tenant);
        removed
            .map(|((device, ..), template)| (device, template.wish.spec))
            .collect()
    }

    /// Names of all wishes.
    pub fn names(&self) -> impl Iterator<Item = &TemplateName> {
        self.all.keys()
    }

    /// The model of a wish.
    pub fn spec(&self, name: &TemplateName) -> Option<&ModelSpec> {
        Some(&self.all.get(name)?.wish.spec)
    }

    /// Sources of a wish's objects, of which none is mapped.
    pub fn sources(&self, name: &TemplateName) -> Option<Sources> {
        let wish = &self.all.get(name)?.wish;
        let (pool, objects) = (Arc::clone(&wish.pool), Arc::clone(&wish.objects));
        Some(Sources::new(pool, objects))
    }

    /// Measured bytes per second of a device's transfers; `None` before the first long one.
    pub fn bandwidth(&self, device: DeviceId) -> Option<u64> {
        self.bandwidth.get(&device)?.value()
    }

    /// Counts a transfer of this rate, in bytes per second. Returns true if the device's bandwidth
    /// has drifted from the one that prefixes follow.
    pub fn measured(&mut self, device: DeviceId, rate: u64) -> bool {
        self.bandwidth.entry(device).or_default().add(rate)
    }

    fn ttft_us(&self, template: &Template) -> u64 {
        let configured = u64::try_from(self.config.ttft.as_micros()).unwrap_or(u64::MAX);
        template.ttft_us.value().unwrap_or(configured)
    }

    /// Length of the prefix that a wish needs. Before the first measurement no bandwidth is counted
    /// on.
    fn wanted_bytes(&self, device: DeviceId, template: &Template) -> u64 {
        let bandwidth = self.bandwidth(device).unwrap_or(0);
        let wish = &template.wish;
        let bytes = prefix_bytes(wish.spec.bytes(), self.ttft_us(template), bandwidth);
        bytes.min(wish.most_bytes)
    }

    /// Number of leading objects that each model of a device keeps.
    pub fn allocation(&self, device: DeviceId) -> Vec<(TemplateName, usize)> {
        let mut templates: Vec<_> = self.of_device(device).collect();
        templates.sort_by_key(|(_, template)| Reverse(template.recency));
        let demand = |(_, template): &(&TemplateName, &Template)| {
            let bytes = self.wanted_bytes(device, template);
            (template.wish.spec.clone(), bytes)
        };
        let demands: Vec<_> = templates.iter().map(demand).collect();
        let demands: Vec<_> = demands
            .iter()
            .map(|(spec, bytes)| Demand {
                parts: spec.parts(),
                bytes: *bytes,
            })
            .collect();
        let kept = allocate(&demands, self.config.budget_bytes);
        templates.iter().map(|(name, _)| **name).zip(kept).collect()
    }

    /// States of a device's templates. `usage` has what is kept of each.
    pub fn reports(
        &self,
        device: DeviceId,
        usage: impl Fn(&TemplateName) -> Option<PrefixUsage>,
    ) -> Vec<TemplateReport> {
        let templates = self.of_device(device);
        templates
            .map(|(name, template)| TemplateReport {
                tenant: name.1,
                model: name.2.0.to_string(),
                ttft_us: self.ttft_us(template),
                wanted_bytes: self.wanted_bytes(device, template),
                usage: usage(name).unwrap_or(PrefixUsage {
                    model_bytes: template.wish.spec.bytes(),
                    kept_bytes: 0,
                    resident_bytes: 0,
                }),
            })
            .collect()
    }

    fn of_device(&self, device: DeviceId) -> impl Iterator<Item = (&TemplateName, &Template)> {
        let first = (device, TenantId(u32::MIN), ModelKey::MIN);
        let last = (device, TenantId(u32::MAX), ModelKey::MAX);
        self.all.range(first..=last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tetris_store_layout::{CreateOptions, Digest, Store};

    use super::*;
    use crate::residency::Part;
    use crate::server::object_limit::ObjectLimit;

    const DEVICE: DeviceId = DeviceId(0);

    /// A model of so many objects.
    fn wish(pool: &Arc<Pool>, model: u8, objects: usize) -> Wish {
        let object = |number: usize| {
            let mut name = [model; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            let id = ObjectId(Digest(name));
            let (crc, len) = (0, 1);
            (id, ObjectRef { id, crc, len })
        };
        let objects: BTreeMap<_, _> = (0..objects).map(object).collect();
        let part = |object: &ObjectRef| Part {
            object: object.id,
            len: object.len,
        };
        let parts: Vec<_> = objects.values().map(part).collect();
        Wish {
            spec: ModelSpec::try_new(&parts, &[]).unwrap(),
            objects: Arc::new(objects),
            pool: Arc::clone(pool),
            most_bytes: 1,
        }
    }

    #[test]
    fn a_tenants_oldest_wishes_make_room_for_new_ones() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = directory.path().join("store");
        let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
        let limit = Arc::new(ObjectLimit::new(1));
        let pool = |tenant| {
            let pool = Pool::new(tenant, Arc::clone(&store), BTreeSet::new(), &limit);
            Arc::new(pool)
        };
        let mut templates = Templates::default();
        let mut add = |tenant: u32, model: u8| {
            let tenant = TenantId(tenant);
            let wish = wish(&pool(tenant), model, ModelSpec::MAX_PARTS);
            let key = wish.spec.key();
            let dropped = templates.wish((DEVICE, tenant, key), wish, 0);
            let dropped: Vec<_> = dropped.iter().map(ModelSpec::key).collect();
            (key, dropped)
        };
        let first = add(1, 0).0;
        assert_eq!(add(2, 0).1, [], "another tenant's");
        for model in 1..4 {
            assert_eq!(add(1, model).1, []);
        }
        // The same again is no further one, and the newest.
        assert_eq!(add(1, 0).1, []);
        let (_, dropped) = add(1, 4);
        assert_eq!(dropped.len(), 1);
        assert_ne!(dropped, [first]);
        assert_eq!(templates.all.len(), 5);
    }
}
