//! Registration of host memory with the driver.

use std::collections::BTreeMap;
use std::ops::{Range, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::lengths::Lengths;
use super::link::LINK;
use super::queue::{Queue, Waiting};
use super::refusals::Refusals;
use tetris_gpu_device::{DeviceMemory, HostSlice, MemoryError};

/// Registration holds locks of the driver and the kernel for long, so a process makes one at a
/// time, and unregisters one at a time. Taken before a registrar's own lock.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Shortest pause before a registration that a copy uses is looked at again.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// Registers host memory after the transfers that staged it, in pieces and within a limit.
///
/// A transfer asks for registered memory and never waits for the driver. Afterwards it names the
/// memory that it staged, and [`RegistrationThread`](super::RegistrationThread), or the caller of
/// [`Self::register_all`], registers that for the next transfer. A registered piece holds its
/// reference to an object of the store, and so does memory that waits for its registration, until
/// the registrar gives it up, on request or to make room. Any thread may give up memory that no copy
/// uses.
#[derive(Debug)]
pub struct Registrar<D: DeviceMemory> {
    device: Arc<D>,
    limit_bytes: u64,
    lengths: Lengths,
    /// Length of the registered memory, in bytes.
    used_bytes: AtomicU64,
    /// Never held during a call of the driver.
    inside: Mutex<Inside<D>>,
    /// Rung at a change for [`Self::wait`].
    changed: Condvar,
}

#[derive(Debug)]
struct Inside<D: DeviceMemory> {
    refusals: Refusals,
    uses: Uses,
    /// Number of the current transfer, or of the last one.
    transfer: u64,
    /// Registered pieces by address.
    entries: BTreeMap<usize, Entry<D>>,
    queue: Queue,
    stopped: bool,
}

#[derive(Debug)]
struct Entry<D: DeviceMemory> {
    registration: Arc<D::Registration>,
    len: usize,
    /// Number of the last transfer that used it.
    transfer: u64,
    /// Time of the last use.
    at: Instant,
}

/// The next call of the driver.
enum Next<D: DeviceMemory> {
    /// Makes room for a registration.
    Unregister(Entry<D>),
    /// Registers memory for the transfers after this one.
    Register(HostSlice, u64),
}

/// Work of a registrar's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// A piece waits for its registration.
    Register,
    /// A piece was unused for too long.
    Expire,
    /// The thread must end.
    Stop,
}

/// A part of a piece, for a copy.
pub(super) struct Registered<D: DeviceMemory> {
    /// The memory, inside of one registration.
    pub memory: HostSlice,
    /// Kept until the copy is done.
    pub registration: Arc<D::Registration>,
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
    /// Creates a registrar for `device` that registers at most `limit_bytes` at a time, for copies
    /// in groups of `group_bytes`.
    pub fn new(device: Arc<D>, limit_bytes: u64, group_bytes: u64) -> Self {
        Self::with_lengths(device, limit_bytes, Lengths::for_groups(group_bytes))
    }

    pub(super) fn with_lengths(device: Arc<D>, limit_bytes: u64, lengths: Lengths) -> Self {
        let inside = Inside {
            refusals: Refusals::default(),
            uses: Uses::default(),
            transfer: 0,
            entries: BTreeMap::new(),
            queue: Queue::default(),
            stopped: false,
        };
        Self {
            device,
            limit_bytes,
            lengths,
            used_bytes: AtomicU64::new(0),
            inside: Mutex::new(inside),
            changed: Condvar::new(),
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

    /// The reason that the last registration was refused, until one succeeds. Does not wait for the
    /// driver.
    pub fn refusal(&self) -> Option<String> {
        self.lock().refusals.reason().map(str::to_owned)
    }

    /// Starts a transfer, and returns its number.
    pub(super) fn begin(&self) -> u64 {
        let mut inside = self.lock();
        inside.transfer += 1;
        inside.transfer
    }

    /// Finds the registrations of `memory` for a copy of this transfer, in the order of addresses.
    /// `None`: not all of it is registered, and the caller must copy through pinned memory. Does not
    /// wait for the driver.
    pub(super) fn find(&self, memory: &HostSlice, transfer: u64) -> Option<Vec<Registered<D>>> {
        let bytes = memory.bytes();
        let start = bytes.as_ptr() as usize;
        let mut inside = self.lock();
        let (mut at, mut starts) = (0, Vec::new());
        while at < bytes.len() {
            let (from, entry) = inside.entries.range(..=start + at).next_back()?;
            let end = (from + entry.len).min(start + bytes.len());
            let len = end.checked_sub(start + at).filter(|len| *len > 0)?;
            let part = memory.part(at as u64, len as u64).ok()?;
            starts.push((*from, part));
            at += len;
        }
        let mut lengths = Vec::with_capacity(starts.len());
        for (from, memory) in starts {
            let Inside { entries, uses, .. } = &mut *inside;
            let entry = entries.get_mut(&from)?;
            uses.reused += u64::from(entry.transfer < transfer);
            entry.transfer = transfer;
            entry.at = Instant::now();
            let registration = Arc::clone(&entry.registration);
            lengths.push(Registered {
                memory,
                registration,
            });
        }
        Some(lengths)
    }

    /// Queues all memory of the owner of `memory` for registration, after the transfer of this number
    /// staged some of it. Ignores memory that is too short, that this device never accepts, or for
    /// which the limit leaves no room.
    pub(super) fn enqueue(&self, memory: &HostSlice, transfer: u64) {
        let memory = memory.of_owner();
        let len = memory.bytes().len() as u64;
        let mut inside = self.lock();
        if self.lengths.pieces(len).next().is_none()
            || self.limit_bytes == 0
            || inside.refusals.is_final()
        {
            return;
        }
        if memory.stays_read_only() && !self.device.capabilities().registers_read_only {
            inside.refusals.skip();
            return;
        }
        // Memory that waits is referenced too, so it has the same limit.
        if inside.queue.bytes() + len.min(self.limit_bytes) > self.limit_bytes {
            return;
        }
        inside.queue.push(memory, transfer, Instant::now());
        drop(inside);
        self.changed.notify_all();
    }

    /// Registers one piece of the queued memory, or unregisters an older one to make room for it.
    /// Returns false if nothing is left to do now.
    pub fn register_next(&self) -> bool {
        self.register_next_at(Instant::now())
    }

    /// Does the same if no transfer has run in this process for `calm`.
    pub(super) fn register_next_between(&self, calm: Duration) -> bool {
        // First the turn: other devices' registrations take time too.
        let turn = one_at_a_time();
        LINK.wait(calm, Duration::ZERO) && self.register_in_turn(&turn, Instant::now())
    }

    pub(super) fn register_next_at(&self, now: Instant) -> bool {
        self.register_in_turn(&one_at_a_time(), now)
    }

    fn register_in_turn(&self, _one: &MutexGuard<'_, ()>, now: Instant) -> bool {
        let next = self.next(now);
        match next {
            None => return false,
            Some(Next::Unregister(entry)) => {
                self.unregister(entry);
            }
            Some(Next::Register(memory, transfer)) => {
                match self.device.register(memory.clone()) {
                    Ok(registration) => self.registered(&memory, registration, transfer, now),
                    Err(error) => {
                        let gone = self.lock().refused(&error, now);
                        // Outside of the lock, because it can unmap memory.
                        drop(gone);
                    }
                }
            }
        }
        true
    }

    /// Chooses the next call of the driver.
    fn next(&self, now: Instant) -> Option<Next<D>> {
        let mut inside = self.lock();
        if inside.refusals.is_final() || !inside.refusals.pause(now).is_zero() {
            return None;
        }
        while let Some(waiting) = inside.queue.front() {
            let transfer = waiting.transfer;
            let piece = missing(self.lengths, &inside.entries, &waiting.memory);
            let piece = piece.into_iter().next();
            let piece = piece.and_then(|at| {
                let (from, len) = (at.start as u64, (at.end - at.start) as u64);
                waiting.memory.part(from, len).ok()
            });
            let len = piece.as_ref().map(|piece| piece.bytes().len() as u64);
            let room = self.limit_bytes.saturating_sub(self.used_bytes());
            if let (Some(piece), true) = (piece, len <= Some(room)) {
                return Some(Next::Register(piece, transfer));
            }
            let fits = len.is_some_and(|len| len <= self.limit_bytes);
            if let Some(entry) = fits.then(|| inside.oldest(transfer)).flatten() {
                return Some(Next::Unregister(entry));
            }
            inside.queue.pop();
        }
        None
    }

    fn registered(
        &self,
        memory: &HostSlice,
        registration: D::Registration,
        transfer: u64,
        now: Instant,
    ) {
        let bytes = memory.bytes();
        self.used_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let entry = Entry {
            registration: Arc::new(registration),
            len: bytes.len(),
            transfer,
            at: now,
        };
        let mut inside = self.lock();
        inside.refusals.accept();
        inside.uses.made += 1;
        inside.entries.insert(bytes.as_ptr() as usize, entry);
    }

    /// Drops a registration, without this registrar's lock. Returns its length in bytes.
    fn unregister(&self, entry: Entry<D>) -> u64 {
        let bytes = entry.len as u64;
        drop(entry);
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Registers all queued memory now. For callers without a
    /// [`RegistrationThread`](super::RegistrationThread).
    pub fn register_all(&self) {
        while self.register_next() {}
    }

    /// Gives up all memory that no copy uses.
    pub fn clear(&self) {
        drop(self.drain(|_| true));
        while self.unregister_next(.., |_| true).is_some() {}
    }

    /// Gives up this memory, unless a copy uses it. Returns the number of registered bytes
    /// or waited for it.
    pub fn give_up(&self, memory: &HostSlice) -> u64 {
        let range = memory.owner_bytes().as_ptr_range();
        let range = range.start as usize..range.end as usize;
        let mut bytes = {
            // A registration of it may be under way.
            let _one = one_at_a_time();
            let mut inside = self.lock();
            let gone = inside.queue.remove(range.start);
            let missing = |gone: &Waiting| missing(self.lengths, &inside.entries, &gone.memory);
            let parts = gone.as_ref().map(missing).unwrap_or_default();
            drop(inside);
            parts.into_iter().map(|part| part.len() as u64).sum()
        };
        while let Some(more) = self.unregister_next(range.clone(), |_| true) {
            bytes += more;
        }
        bytes
    }

    /// Gives up memory that no copy has used for at least `keep`, one piece after the other.
    pub fn expire(&self, keep: Duration) {
        while self.expire_next(keep) {}
    }

    /// Gives up one piece that no copy has used for at least `keep`, and the memory that has waited
    /// as long. Returns false if there is none.
    pub(super) fn expire_next(&self, keep: Duration) -> bool {
        let old = self.drain(|age| age >= keep);
        let piece = self.unregister_next(.., |entry| entry.at.elapsed() >= keep);
        !old.is_empty() || piece.is_some()
    }

    /// Removes memory from the queue that has waited for these times.
    fn drain(&self, is_wanted: impl Fn(Duration) -> bool) -> Vec<Waiting> {
        let _one = one_at_a_time();
        let mut inside = self.lock();
        let mut gone = Vec::new();
        while inside.queue.age().is_some_and(&is_wanted) {
            gone.extend(inside.queue.pop());
        }
        gone
    }

    /// Unregisters one piece at these addresses that no copy uses, without this registrar's lock.
    /// Returns its length in bytes.
    fn unregister_next(
        &self,
        at: impl RangeBounds<usize>,
        may_go: impl Fn(&Entry<D>) -> bool,
    ) -> Option<u64> {
        let _one = one_at_a_time();
        let entry = {
            let mut inside = self.lock();
            let mut entries = inside.entries.range(at);
            let goes = |(_, entry): &(&usize, &Entry<D>)| entry.is_idle() && may_go(entry);
            let start = *entries.find(goes)?.0;
            inside.entries.remove(&start)?
        };
        Some(self.unregister(entry))
    }

    /// Time until [`Self::expire`] has something to do. `None`: no memory is registered or queued.
    pub fn until_expiry(&self, keep: Duration) -> Option<Duration> {
        self.lock().until_expiry(keep)
    }

    /// Waits for work.
    pub(super) fn wait(&self, keep: Duration) -> Due {
        let mut inside = self.lock();
        loop {
            let expiry = inside.until_expiry(keep);
            let registration = inside.until_registration();
            let due = |time: Option<Duration>| time.is_some_and(|left| left.is_zero());
            if inside.stopped {
                return Due::Stop;
            } else if due(expiry) {
                return Due::Expire;
            } else if due(registration) {
                return Due::Register;
            }
            let soonest = [expiry, registration].into_iter().flatten().min();
            inside = match soonest {
                None => {
                    let woken = self.changed.wait(inside);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
                Some(time) => {
                    let woken = self.changed.wait_timeout(inside, time);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Ends [`Self::wait`].
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inside<D>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parts of `memory` that are not registered, as offsets.
fn missing<D: DeviceMemory>(
    lengths: Lengths,
    entries: &BTreeMap<usize, Entry<D>>,
    memory: &HostSlice,
) -> Vec<Range<usize>> {
    let bytes = memory.bytes();
    let start = bytes.as_ptr() as usize;
    let pieces = lengths.pieces(bytes.len() as u64);
    let pieces = pieces.map(|(from, len)| from as usize..(from + len) as usize);
    let absent = pieces.filter(|piece| !entries.contains_key(&(start + piece.start)));
    absent.collect()
}

impl<D: DeviceMemory> Entry<D> {
    /// Returns true if no copy uses it.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.registration) == 1
    }
}

impl<D: DeviceMemory> Inside<D> {
    /// Removes the registration that was unused for the longest time. Never one that this transfer
    /// used: a model beyond the limit would lose its first pieces to its last ones at each load, and
    /// find none of them.
    fn oldest(&mut self, transfer: u64) -> Option<Entry<D>> {
        let entries = self.entries.iter();
        let older = entries.filter(|(_, entry)| entry.transfer < transfer && entry.is_idle());
        let oldest = older.min_by_key(|(_, entry)| (entry.transfer, entry.at));
        let start = *oldest?.0;
        self.entries.remove(&start)
    }

    /// Records a refusal of the first queued memory. Returns memory that leaves the queue.
    fn refused(&mut self, error: &MemoryError, now: Instant) -> Queue {
        self.refusals.refuse(error, now);
        if self.refusals.is_final() {
            return std::mem::take(&mut self.queue);
        }
        self.queue.refuse();
        Queue::default()
    }

    fn until_expiry(&self, keep: Duration) -> Option<Duration> {
        let entries = self.entries.values().map(|entry| {
            let left = keep.saturating_sub(entry.at.elapsed());
            let look = if entry.is_idle() {
                Duration::ZERO
            } else {
                SHORTEST_LOOK.max(keep / 16)
            };
            left.max(look)
        });
        let queue = self.queue.age().map(|age| keep.saturating_sub(age));
        entries.chain(queue).min()
    }

    fn until_registration(&self) -> Option<Duration> {
        self.queue.front()?;
        Some(self.refusals.pause(Instant::now()))
    }
}
