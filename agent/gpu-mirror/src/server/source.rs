//! A model's bytes in the store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tetris_store_layout::{Access, ObjectId, ObjectRef, Store};

use crate::memory::HostSlice;
use crate::protocol::{Reason, Refused};
use crate::residency::Part;

/// Objects of a model in the store. Those that were looked at are mapped, and so referenced (INV-3), as long as this lives: while
/// a model waits, and until it has been copied.
pub(super) struct Sources {
    store: Arc<Store>,
    objects: BTreeMap<ObjectId, ObjectRef>,
    mapped: Mutex<BTreeMap<ObjectId, HostSlice>>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sources({} objects)", self.objects.len())
    }
}

impl Sources {
    pub fn new(store: Arc<Store>, objects: BTreeMap<ObjectId, ObjectRef>) -> Self {
        let mapped = Mutex::default();
        Self {
            store,
            objects,
            mapped,
        }
    }

    /// The object's bytes, if the store has it.
    pub fn get(&self, id: &ObjectId) -> Option<HostSlice> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slice) = mapped.get(id) {
            return Some(slice.clone());
        }
        let found = self.store.map(self.objects.get(id)?, Access::ReadOnly);
        let found = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "an object cannot be copied to a device");
            None
        });
        let slice = HostSlice::whole(Arc::new(found?));
        mapped.insert(*id, slice.clone());
        Some(slice)
    }

    /// Maps `parts`, or says what is missing.
    pub fn map_all(&self, parts: &[Part]) -> Result<(), Refused> {
        let absent = parts.iter().filter(|part| self.get(&part.object).is_none());
        let absent: Vec<_> = absent.collect();
        let Some(first) = absent.first() else {
            return Ok(());
        };
        let count = absent.len();
        Err(Refused {
            reason: Reason::MISSING,
            missing_bytes: absent.iter().map(|part| part.len).sum(),
            missing_objects: count as u32,
            text: format!(
                "expected {} objects in the store, found {count} of them missing, {} among them; load the model into the store first",
                parts.len(),
                first.object
            ),
        })
    }
}
