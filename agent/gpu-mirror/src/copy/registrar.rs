//! Host memory that is registered with the driver.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::memory::{DeviceMemory, HostSlice};

/// Registrations take the driver's and the kernel's locks for long: one at a time in a process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// After so many refusals in a row there is no point in asking: the kernel is too old, or the limit on locked memory too low.
const MAX_REFUSALS: u32 = 3;

/// Registers mappings once each, within a limit. A registered mapping is kept, and with it the reference to an object of
/// the store, until it is given up here or others need the room. Any thread may give up what no copy uses at the moment.
#[derive(Debug)]
pub struct Registrar<D: DeviceMemory> {
    device: Arc<D>,
    limit_bytes: u64,
    /// Outside of the lock, which is held while the driver registers.
    used_bytes: AtomicU64,
    inside: Mutex<Inside<D>>,
}

#[derive(Debug)]
struct Inside<D: DeviceMemory> {
    refusals: u32,
    next: u64,
    /// What `next` was when the transfer began.
    begun: u64,
    uses: Uses,
    /// By address and length of the memory.
    entries: BTreeMap<(usize, usize), Entry<D>>,
}

#[derive(Debug)]
struct Entry<D: DeviceMemory> {
    registration: Arc<D::Registration>,
    /// Rises with each use.
    used: u64,
    /// The last use.
    at: Instant,
}

/// How often memory was registered, and how often that could be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uses {
    /// Registrations that were made.
    pub made: u64,
    /// Registrations that an earlier transfer made, each once for each transfer that used them.
    pub reused: u64,
}

impl<D: DeviceMemory> Registrar<D> {
    /// Registers with `device`, at most `limit_bytes` at a time.
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

    /// The device that registers.
    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// Bytes that are registered. Waits for no driver.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// What was done since this was last asked.
    pub fn take_uses(&self) -> Uses {
        std::mem::take(&mut self.lock().uses)
    }

    /// A transfer begins: what it uses of what there is, is used once more.
    pub(super) fn begin(&self) {
        let mut inside = self.lock();
        inside.begun = inside.next;
    }

    /// Registers all memory of the owner of `memory`, unless it is. Whoever copies keeps the result until the copy is done.
    /// `None`: copy through pinned memory instead.
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

    /// Gives up registrations that no copy uses, least recently used first, until `bytes` more fit.
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

    /// Gives up all registrations that no copy uses.
    pub fn clear(&self) {
        self.give_up_if(|_| true);
    }

    /// Gives up the registration of this memory, unless a copy uses it. Returns how many bytes that were.
    pub fn give_up(&self, memory: &HostSlice) -> u64 {
        let key = key(memory);
        let mut inside = self.lock();
        if inside.entries.get(&key).is_some_and(Entry::is_idle) {
            self.forget(&mut inside, key)
        } else {
            0
        }
    }

    /// Gives up registrations that no copy has used for so long.
    pub fn expire(&self, keep: Duration) {
        let now = Instant::now();
        self.give_up_if(|entry| now.saturating_duration_since(entry.at) >= keep);
    }

    /// How long to wait until [`Self::expire`] may have something to do, late by at most a sixteenth of `keep`, so that it is not
    /// called for each mapping of a model. `None`: nothing is registered.
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
    /// No copy uses it.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.registration) == 1
    }
}

impl<D: DeviceMemory> Inside<D> {
    /// The registration that there is, which is used once more.
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
