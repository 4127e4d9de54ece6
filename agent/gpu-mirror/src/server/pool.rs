//! Mappings of a store that outlive a load, because the driver still has them registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tetris_store_layout::{Access, Mapping, ObjectId, ObjectRef, Store};

use crate::residency::DeviceId;

/// Entries below which it is not worth while to look for dead ones.
const FEW: usize = 1024;

/// Finds what is mapped already. It keeps no mapping itself: loads do, and registrations ([`crate::copy::Registrar`]).
///
/// The driver refuses to register the same pages twice in a process, so each device has mappings of its own.
#[derive(Debug)]
pub(super) struct Pool {
    store: Arc<Store>,
    /// Devices that register only pages which were mapped for that.
    registrable: BTreeSet<DeviceId>,
    known: Mutex<Known>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// The newest last. Older ones are of objects that were set aside as damaged and published anew.
    mappings: BTreeMap<(ObjectId, DeviceId), Vec<Weak<Mapping>>>,
    /// Dead ones are looked for when there are more than this.
    tidy_at: usize,
}

impl Pool {
    /// `registrable` are devices that register no read-only pages. For all others objects are not even opened for writing.
    pub fn new(store: Arc<Store>, registrable: BTreeSet<DeviceId>) -> Self {
        Self {
            store,
            registrable,
            known: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// What is mapped of an object for copies to this device, or to any, if it still is what the store has.
    pub fn find(&self, object: &ObjectRef, on: Option<DeviceId>) -> Option<Arc<Mapping>> {
        let least = DeviceId(u32::MIN);
        let (from, to) = on.map_or((least, DeviceId(u32::MAX)), |one| (one, one));
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
        let found = self.store.map(object, access);
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "an object cannot be copied to a device");
            None
        });
        found.map(Arc::new)
    }

    /// Takes note of a mapping for copies to this device.
    pub fn note(&self, object: ObjectId, device: DeviceId, mapping: &Arc<Mapping>) {
        let mut known = self.lock();
        if known.mappings.len() > known.tidy_at.max(FEW) {
            known.tidy();
        }
        let mappings = known.mappings.entry((object, device)).or_default();
        mappings.retain(|one| one.strong_count() > 0);
        mappings.push(Arc::downgrade(mapping));
    }

    /// All mappings that there are.
    pub fn alive(&self) -> Vec<Arc<Mapping>> {
        let known = self.lock();
        let all = known.mappings.values().flatten();
        all.filter_map(Weak::upgrade).collect()
    }

    /// The tenant is served no longer: nothing is kept after a load.
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
            mappings.retain(|one| one.strong_count() > 0);
            !mappings.is_empty()
        });
        self.tidy_at = self.mappings.len() * 2;
    }
}
