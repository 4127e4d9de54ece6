//! Models that a process has in device memory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tetris_gpu_client::settle_unmapping;
use tetris_store_layout::{Digest, ObjectRef};

use super::Target;
use super::lease::Lease;
use super::named::{NamedModel, NamedModels};

/// Models that a process has in device memory. A second load of a model shares the mappings of the
/// first.
///
/// A process needs one registry; a forked child creates another.
#[derive(Debug, Default)]
pub struct Registry {
    known: Mutex<Vec<Known>>,
    named: Mutex<NamedModels>,
}

/// Identity of a model: the mirror's socket, and a digest of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    socket: PathBuf,
    objects: Digest,
}

#[derive(Debug)]
struct Known {
    key: Key,
    lease: Weak<Lease>,
    kept: Option<Arc<Lease>>,
}

impl Key {
    pub(super) fn new(socket: &Path, objects: &[ObjectRef]) -> Self {
        let mut ids: Vec<_> = objects.iter().map(|object| object.id.0).collect();
        // Files of the same tensors in another order share the memory.
        ids.sort_unstable();
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.0).collect();
        Self {
            socket: socket.to_owned(),
            objects: Digest::of(&bytes),
        }
    }
}

impl Registry {
    /// Releases kept models that nothing uses. Returns the length of their device memory, in bytes. It
    /// is unmapped then, unless the process captures a CUDA graph: then at the end of the capture.
    pub fn release(&self) -> u64 {
        let kept: Vec<_> = {
            let mut known = self.lock();
            known
                .iter_mut()
                .filter_map(|known| known.kept.take())
                .collect()
        };
        // Unmapping waits for the device, so it happens outside the lock.
        let last = kept.into_iter().filter_map(Arc::into_inner);
        let bytes = last.map(|lease| lease.mapped_bytes()).sum();
        settle_unmapping();
        self.lock().retain(Known::is_alive);
        bytes
    }

    /// Finds a lease of these objects that can be shared.
    pub(super) fn find(&self, key: &Key, target: Target, keep: bool) -> Option<Arc<Lease>> {
        let mut known = self.lock();
        let mut same = known.iter_mut().filter(|known| known.key == *key);
        same.find_map(|known| {
            let lease = known.lease.upgrade()?;
            if !target.is_met_by(lease.location()) || !lease.is_usable() {
                return None;
            }
            if keep {
                known.kept = Some(Arc::clone(&lease));
            }
            Some(lease)
        })
    }

    /// Adds a lease. If another thread was faster, returns that thread's lease instead.
    pub(super) fn enter(&self, key: Key, lease: Arc<Lease>, keep: bool) -> Arc<Lease> {
        if let Some(found) = self.find(&key, lease.location().into(), keep) {
            return found;
        }
        let mut known = self.lock();
        known.retain(Known::is_alive);
        known.push(Known {
            key,
            lease: Arc::downgrade(&lease),
            kept: keep.then(|| Arc::clone(&lease)),
        });
        lease
    }

    /// Records that this process named a model to the mirror.
    pub(super) fn name(&self, model: &NamedModel) {
        let named = self.named.lock();
        named.unwrap_or_else(PoisonError::into_inner).add(model);
    }

    /// The latest models that this process named, the oldest first.
    pub fn named(&self) -> Vec<NamedModel> {
        let named = self.named.lock();
        named.unwrap_or_else(PoisonError::into_inner).list()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_alive(&self) -> bool {
        self.lease.strong_count() > 0
    }
}
