//! The bytes of a model in the store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetris_store_layout::{Mapping, ObjectId, ObjectRef};

use super::object_limit::{ObjectPermit, TooManyObjects};
use super::pool::Pool;
use crate::copy::StorePages;
use crate::residency::{DeviceId, Part};
use tetris_gpu_device::HostSlice;
use tetris_gpu_protocol::{Reason, Refused};

/// Objects of a model in the store. Objects that were looked up are mapped, and so referenced
/// (INV-3), while this value lives: during the model's wait, and until it has been copied.
pub(super) struct Sources {
    pool: Arc<Pool>,
    objects: Arc<BTreeMap<ObjectId, ObjectRef>>,
    mapped: Mutex<BTreeMap<ObjectId, Source>>,
    /// Permit for the objects that may be mapped.
    permit: Mutex<ObjectPermit>,
}

/// Reason that a model's objects are not all mapped.
#[derive(Debug)]
pub(super) enum NotMapped {
    /// The store does not have all of them.
    Missing(Refused),
    /// The tenant's models have too many mapped.
    TooMany(TooManyObjects),
}

/// A mapped object.
#[derive(Clone)]
struct Source {
    mapping: Arc<Mapping>,
    made: Made,
}

/// Purpose of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// For this model, on no particular device yet.
    Here,
    /// For copies of another model to some device.
    Elsewhere,
    /// For copies to this device.
    For(DeviceId),
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sources({} objects)", self.objects.len())
    }
}

impl Sources {
    pub fn new(pool: Arc<Pool>, objects: Arc<BTreeMap<ObjectId, ObjectRef>>) -> Self {
        let permit = Mutex::new(pool.permit());
        Self {
            pool,
            objects,
            mapped: Mutex::default(),
            permit,
        }
    }

    /// The model's objects in the store.
    pub fn objects(&self) -> &Arc<BTreeMap<ObjectId, ObjectRef>> {
        &self.objects
    }

    /// The index of its mappings.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectId, Source>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps an object; returns false if the store does not have it.
    fn has(&self, id: &ObjectId) -> bool {
        let mut mapped = self.lock();
        if mapped.contains_key(id) {
            return true;
        }
        let source = self.objects.get(id).and_then(|object| {
            let kept = self.pool.find(object, None);
            let kept = kept.map(|mapping| (mapping, Made::Elsewhere));
            kept.or_else(|| Some((self.pool.map(object, None)?, Made::Here)))
        });
        let Some((mapping, made)) = source else {
            return false;
        };
        mapped.insert(*id, Source { mapping, made });
        true
    }

    /// The object's bytes for copies to this device, if the store has them. Always from the same
    /// mapping, so that it is registered once.
    pub fn get(&self, id: &ObjectId, device: DeviceId) -> Option<HostSlice> {
        let mut mapped = self.lock();
        let found = mapped.get(id).cloned();
        if let Some(source) = &found
            && source.made == Made::For(device)
        {
            return Some(slice(&source.mapping));
        }
        let object = self.objects.get(id)?;
        let mapping = match (self.pool.find(object, Some(device)), found) {
            (Some(kept), _) => kept,
            (None, found) => {
                let made_here = found.filter(|source| source.made == Made::Here);
                let mapping = made_here.map(|source| source.mapping);
                let new = mapping.or_else(|| self.pool.map(object, Some(device)))?;
                self.pool.note(*id, device, &new);
                new
            }
        };
        let made = Made::For(device);
        let bytes = slice(&mapping);
        mapped.insert(*id, Source { mapping, made });
        Some(bytes)
    }

    /// Maps `parts`.
    ///
    /// # Errors
    /// The store lacks some, which the refusal names, or there are too many now.
    pub fn map_all(&self, parts: &[Part]) -> Result<(), NotMapped> {
        let permit = self.permit.lock();
        let mut permit = permit.unwrap_or_else(PoisonError::into_inner);
        permit.grow_to(parts.len()).map_err(NotMapped::TooMany)?;
        drop(permit);
        let absent = parts.iter().filter(|part| !self.has(&part.object));
        let absent: Vec<_> = absent.collect();
        let Some(first) = absent.first() else {
            return Ok(());
        };
        let count = absent.len();
        Err(NotMapped::Missing(Refused {
            reason: Reason::MISSING,
            missing_bytes: absent.iter().map(|part| part.len).sum(),
            missing_objects: count as u32,
            text: format!(
                "expected {} objects in the store, found {count} of them missing, {} among them; load the model into the store first",
                parts.len(),
                first.object
            ),
        }))
    }
}

/// Wraps a mapping for copies.
fn slice(mapping: &Arc<Mapping>) -> HostSlice {
    HostSlice::whole(Arc::new(StorePages::new(Arc::clone(mapping))))
}
