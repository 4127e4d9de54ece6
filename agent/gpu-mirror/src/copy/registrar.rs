//! Registration of host memory with the driver.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::memory::{DeviceMemory, HostSlice};

/// Registration holds locks of the driver and the kernel for long, so a process makes one at a
/// time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Number of consecutive refusals after which the registrar stops trying: the kernel is too old, or
/// the limit on locked memory is too low.
const MAX_REFUSALS: u32 = 3;

/// Registers host memory, each mapping once, within a limit. A registered mapping holds its
/// reference to an object of the store until the registrar unregisters it, on request or to make
/// room. Any thread may unregister memory that no copy uses.
#[derive(Debug)]
pub struct Registrar<D: DeviceMemory> {
    device: Arc<D>,
    limit_bytes: u64,
    /// Length of the registered memory, in bytes. Readable without the lock, which a registration
    /// holds for long.
    used_bytes: AtomicU64,
    inside: Mutex<Inside<D>>,
}

#[derive(Debug)]
struct Inside<D: DeviceMemory> {
    refusals: u32,
    next: u64,
    /// Value of `next` at the start of the transfer.
    begun: u64,
    uses: Uses,
    /// Registrations by address and length of the memory.
    entries: BTreeMap<(usize, usize), Entry<D>>,
}

#[derive(Debug)]
struct Entry<D: DeviceMemory> {
    registration: Arc<D::Registration>,
    /// Value of `next` at the last use.
    used: u64,
    /// Time of the last use.
    at: Instant,
}

/// Numbers of new and of reused registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uses {
    /// Number of new registrations.
    pub made: u64,
    /// Number of registrations reused from earlier transfers, each counted once per transfer.
    pub reused: u64,
}

impl<D: DeviceMemory> Registrar<D> {
    /// Creates a registrar for `device` that registers at most `limit_bytes` at a time.
    pub fn new(device: Arc<D>, limit_bytes: u64) -> Self {
        let inside = Inside {
            refusals: 0,
            next: 0,
            begun: 0,
            uses: Uses::default(),
            entries: BTreeMap::new(),
        };
        Self {
            device,
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            inside: Mutex::new(inside),
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// Length of the registered memory, in bytes. Does not wait for the driver.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns the numbers since the last call, and resets them.
    pub fn take_uses(&self) -> Uses {
        std::mem::take(&mut self.lock().uses)
    }

    /// Starts a transfer, in which each earlier registration can count once as reused.
    pub(super) fn begin(&self) {
        let mut inside = self.lock();
        inside.begun = inside.next;
    }

    /// Registers all memory of the owner of `memory`, unless it already is registered. The caller
    /// keeps the result until its copy is done. `None`: the caller must copy through pinned memory.
    pub fn pin(&self, memory: &HostSlice) -> Option<Arc<D::Registration>> {
        let key = key(memory);
        let mut inside = self.lock();
        if let Some(registration) = inside.reuse(key) {
            return Some(registration);
        }
        if inside.refusals >= MAX_REFUSALS || !self.make_room(&mut inside, key.1 as u64) {
            return None;
        }
        let registration = self.register(&mut inside, memory)?;
        self.used_bytes.fetch_add(key.1 as u64, Ordering::Relaxed);
        inside.uses.made += 1;
        let entry = Entry {
            registration: Arc::clone(&registration),
            used: inside.next,
            at: Instant::now(),
        };
        inside.entries.insert(key, entry);
        Some(registration)
    }

    fn register(&self, inside: &mut Inside<D>, memory: &HostSlice) -> Option<Arc<D::Registration>> {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let registered = self.device.register(memory.of_owner());
        drop(one);
        match registered {
            Ok(registration) => {
                inside.refusals = 0;
                Some(Arc::new(registration))
            }
            Err(error) => {
                inside.refusals += 1;
                tracing::debug!(%error, "host memory is copied through pinned buffers");
                None
            }
        }
    }

    /// Unregisters memory that no copy uses, least recently used first, until `bytes` more fit.
    /// Returns false if they do not fit.
    fn make_room(&self, inside: &mut Inside<D>, bytes: u64) -> bool {
        if bytes > self.limit_bytes {
            return false;
        }
        while self.used_bytes().saturating_add(bytes) > self.limit_bytes {
            let idle = inside.entries.iter().filter(|(_, entry)| entry.is_idle());
            let oldest = idle.min_by_key(|(_, entry)| entry.used);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return false;
            };
            self.forget(inside, key);
        }
        true
    }

    /// Unregisters all memory that no copy uses.
    pub fn clear(&self) {
        self.give_up_if(|_| true);
    }

    /// Unregisters this memory, unless a copy uses it. Returns the number of bytes unregistered.
    pub fn give_up(&self, memory: &HostSlice) -> u64 {
        let key = key(memory);
        let mut inside = self.lock();
        if inside.entries.get(&key).is_some_and(Entry::is_idle) {
            self.forget(&mut inside, key)
        } else {
            0
        }
    }

    /// Unregisters memory that no copy has used for at least `keep`.
    pub fn expire(&self, keep: Duration) {
        let now = Instant::now();
        self.give_up_if(|entry| now.saturating_duration_since(entry.at) >= keep);
    }

    /// Time until the next call of [`Self::expire`] is due. At least a sixteenth of `keep`, so that
    /// one call covers many mappings of a model. `None`: nothing is registered.
    pub fn until_expiry(&self, keep: Duration) -> Option<Duration> {
        let oldest = self.lock().entries.values().map(|entry| entry.at).min()?;
        Some(keep.saturating_sub(oldest.elapsed()).max(keep / 16))
    }

    fn give_up_if(&self, wanted: impl Fn(&Entry<D>) -> bool) {
        let mut inside = self.lock();
        let entries = inside.entries.iter();
        let idle = entries.filter(|(_, entry)| entry.is_idle() && wanted(entry));
        let idle: Vec<_> = idle.map(|(key, _)| *key).collect();
        for key in idle {
            self.forget(&mut inside, key);
        }
    }

    fn forget(&self, inside: &mut Inside<D>, key: (usize, usize)) -> u64 {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = inside.entries.remove(&key);
        let bytes = gone.as_ref().map_or(0, |_| key.1 as u64);
        drop(gone);
        drop(one);
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inside<D>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: DeviceMemory> Entry<D> {
    /// Returns true if no copy uses it.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.registration) == 1
    }
}

impl<D: DeviceMemory> Inside<D> {
    /// Returns the existing registration, if any, and records its use.
    fn reuse(&mut self, key: (usize, usize)) -> Option<Arc<D::Registration>> {
        self.next += 1;
        let entry = self.entries.get_mut(&key)?;
        if entry.used <= self.begun {
            self.uses.reused += 1;
        }
        entry.used = self.next;
        entry.at = Instant::now();
        Some(Arc::clone(&entry.registration))
    }
}

fn key(memory: &HostSlice) -> (usize, usize) {
    let bytes = memory.owner_bytes();
    (bytes.as_ptr() as usize, bytes.len())
}
