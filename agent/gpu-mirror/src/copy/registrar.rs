//! Host memory that is registered with the driver.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::memory::{DeviceMemory, HostSlice};

/// Registrations take the driver's and the kernel's locks for long: one at a time in a process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// After so many refusals in a row there is no point in asking: the kernel is too old, or the limit on locked memory too low.
const MAX_REFUSALS: u32 = 3;

/// Registers mappings once each, within a limit. A registered mapping is kept, and with it the reference to an object of
/// the store, until [`Self::clear`] or until others need the room.
#[derive(Debug)]
pub struct Registrar<D: DeviceMemory> {
    device: Arc<D>,
    limit_bytes: u64,
    used_bytes: u64,
    refusals: u32,
    next: u64,
    /// By address and length of the memory.
    entries: BTreeMap<(usize, usize), Entry<D>>,
}

#[derive(Debug)]
struct Entry<D: DeviceMemory> {
    registration: Arc<D::Registration>,
    /// Rises with each use.
    used: u64,
}

impl<D: DeviceMemory> Registrar<D> {
    /// Registers with `device`, at most `limit_bytes` at a time.
    pub fn new(device: Arc<D>, limit_bytes: u64) -> Self {
        Self {
            device,
            limit_bytes,
            used_bytes: 0,
            refusals: 0,
            next: 0,
            entries: BTreeMap::new(),
        }
    }

    /// Bytes that are registered.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Registers all memory of the owner of `memory`, unless it is. Whoever copies keeps the result until the copy is done.
    /// `None`: copy through pinned memory instead.
    pub fn pin(&mut self, memory: &HostSlice) -> Option<Arc<D::Registration>> {
        let bytes = memory.owner_bytes();
        let key = (bytes.as_ptr() as usize, bytes.len());
        self.next += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.used = self.next;
            return Some(Arc::clone(&entry.registration));
        }
        if self.refusals >= MAX_REFUSALS || !self.make_room(key.1 as u64) {
            return None;
        }
        let registration = self.register(memory)?;
        self.used_bytes += key.1 as u64;
        let entry = Entry {
            registration: Arc::clone(&registration),
            used: self.next,
        };
        self.entries.insert(key, entry);
        Some(registration)
    }

    fn register(&mut self, memory: &HostSlice) -> Option<Arc<D::Registration>> {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let registered = self.device.register(memory.of_owner());
        drop(one);
        match registered {
            Ok(registration) => {
                self.refusals = 0;
                Some(Arc::new(registration))
            }
            Err(error) => {
                self.refusals += 1;
                tracing::debug!(%error, "host memory is copied through pinned buffers");
                None
            }
        }
    }

    /// Gives up registrations that no copy uses, least recently used first, until `bytes` more fit.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.used_bytes.saturating_add(bytes) > self.limit_bytes {
            let idle = self.entries.iter();
            let idle = idle.filter(|(_, entry)| Arc::strong_count(&entry.registration) == 1);
            let oldest = idle.min_by_key(|(_, entry)| entry.used);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return false;
            };
            self.forget(key);
        }
        true
    }

    /// Gives up all registrations that no copy uses.
    pub fn clear(&mut self) {
        let entries = self.entries.iter();
        let idle = entries.filter(|(_, entry)| Arc::strong_count(&entry.registration) == 1);
        let idle: Vec<_> = idle.map(|(key, _)| *key).collect();
        for key in idle {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: (usize, usize)) {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if self.entries.remove(&key).is_some() {
            self.used_bytes = self.used_bytes.saturating_sub(key.1 as u64);
        }
        drop(one);
    }
}
