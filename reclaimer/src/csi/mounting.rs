//! Mounts under way: one of each model at a time.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::models::{ModelKey, ModelQuestion};

/// The models under way.
#[derive(Debug, Default)]
pub(super) struct Mounting(Mutex<BTreeSet<ModelKey>>);

/// The right to mount a model. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct MountTurn<'a> {
    mounting: &'a Mounting,
    key: ModelKey,
}

impl Mounting {
    /// The turn for a model; `None` while it is mounted for another pod, or where there is no such model.
    pub(super) fn take(&self, question: &ModelQuestion) -> Option<MountTurn<'_>> {
        let key = question.key()?;
        let is_free = self.locked().insert(key.clone());
        is_free.then(|| MountTurn {
            mounting: self,
            key,
        })
    }

    fn locked(&self) -> MutexGuard<'_, BTreeSet<ModelKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MountTurn<'_> {
    fn drop(&mut self) {
        self.mounting.locked().remove(&self.key);
    }
}
