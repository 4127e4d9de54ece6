//! Mappings of a store that outlive a load, because the driver still has them registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tetris_store_layout::{Access, Mapping, ObjectId, ObjectRef, Store};

use super::object_limit::{ObjectLimit, ObjectPermit};
use crate::residency::{DeviceId, TenantId};

/// Number of entries below which a search for dead ones is not worthwhile.
const FEW: usize = 1024;

/// Index of existing mappings. Loads and registrations ([`crate::copy::Registrar`]) keep the
/// mappings alive, the index does not.
///
/// The driver refuses to register the same pages twice in a process, so each device has its own
/// mappings.
#[derive(Debug)]
pub(super) struct Pool {
    tenant: TenantId,
    store: Arc<Store>,
    /// Limit of the objects that the tenant's models have mapped.
    objects: Arc<ObjectLimit>,
    /// Devices that need mappings made for registration.
    registrable: BTreeSet<DeviceId>,
    known: Mutex<Known>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// The newest last. Older ones are of objects that were quarantined and published anew.
    mappings: BTreeMap<(ObjectId, DeviceId), Vec<Weak<Mapping>>>,
    /// Number of entries above which the next insertion removes dead ones.
    tidy_at: usize,
}

impl Pool {
    /// Creates an empty index for the store of `tenant`. `registrable` are devices that register no read-only pages;
    /// only for them objects are opened for writing. `objects` limits what models under way have mapped.
    pub fn new(
        tenant: TenantId,
        store: Arc<Store>,
        registrable: BTreeSet<DeviceId>,
        objects: &Arc<ObjectLimit>,
    ) -> Self {
        Self {
            tenant,
            store,
            objects: Arc::clone(objects),
            registrable,
            known: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// A permit for objects of a model, for none yet.
    pub fn permit(&self) -> ObjectPermit {
        self.objects.permit(self.tenant)
    }

    /// Finds an existing mapping of an object for copies to this device, or to any, if it still is
    /// the store's file.
    pub fn find(&self, object: &ObjectRef, on: Option<DeviceId>) -> Option<Arc<Mapping>> {
        let least = DeviceId(u32::MIN);
        let (from, to) = on.map_or((least, DeviceId(u32::MAX)), |entry| (entry, entry));
        let alive: Vec<_> = {
            let known = self.lock();
            let range = known.mappings.range((object.id, from)..=(object.id, to));
            let newest = range.filter_map(|(_, mappings)| mappings.last()?.upgrade());
            newest.collect()
        };
        let mut alive = alive.into_iter();
        alive.find(|mapping| self.store.is_current(object, mapping))
    }

    /// Maps an object anew, for copies to this device, or to any.
    pub fn map(&self, object: &ObjectRef, on: Option<DeviceId>) -> Option<Arc<Mapping>> {
        let registrable = on.map_or(!self.registrable.is_empty(), |device| {
            self.registrable.contains(&device)
        });
        let access = if registrable {
            Access::Registrable
        } else {
            Access::ReadOnly
        };
        let mapped = self.store.map(object, access);
        let mapping = mapped.unwrap_or_else(|error| {
            tracing::warn!(%error, "an object cannot be copied to a device");
            None
        });
        mapping.map(Arc::new)
    }

    /// Records a mapping for copies to this device.
    pub fn note(&self, object: ObjectId, device: DeviceId, mapping: &Arc<Mapping>) {
        let mut known = self.lock();
        if known.mappings.len() > known.tidy_at.max(FEW) {
            known.tidy();
        }
        let mappings = known.mappings.entry((object, device)).or_default();
        mappings.retain(|mapping| mapping.strong_count() > 0);
        mappings.push(Arc::downgrade(mapping));
    }

    /// All live mappings.
    pub fn alive(&self) -> Vec<Arc<Mapping>> {
        let known = self.lock();
        let all = known.mappings.values().flatten();
        all.filter_map(Weak::upgrade).collect()
    }

    /// Marks the tenant as no longer served: loads keep nothing from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn tidy(&mut self) {
        self.mappings.retain(|_, mappings| {
            mappings.retain(|mapping| mapping.strong_count() > 0);
            !mappings.is_empty()
        });
        self.tidy_at = self.mappings.len() * 2;
    }
}
