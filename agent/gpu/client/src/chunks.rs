//! A model's chunks in this process. Where addresses are known beforehand a thread maps them, one after
//! the other, while the program makes tensors of the addresses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tetris_wire::after;

use super::ClientError;
use tetris_gpu_device::{DeviceMemory, Exported, Mapped, MemoryError};

/// Chunks of a model, in the order of the server's messages.
#[derive(Debug)]
pub(super) struct Chunks<D: DeviceMemory> {
    device: Arc<D>,
    /// Address and length of each, in bytes.
    places: Vec<(u64, u64)>,
    shared: Arc<Shared<D>>,
    mapper: Option<Mapper<D>>,
}

/// The thread that maps chunks.
#[derive(Debug)]
struct Mapper<D: DeviceMemory> {
    /// `None` once no further chunk comes.
    ahead: Option<Sender<Ahead<D>>>,
    thread: JoinHandle<()>,
}

/// A chunk whose addresses are reserved.
struct Ahead<D: DeviceMemory> {
    at: usize,
    exported: Exported,
    bytes: u64,
    range: D::Range,
}

#[derive(Debug)]
struct Shared<D: DeviceMemory> {
    mapped: Vec<OnceLock<D::Mapping>>,
    progress: Mutex<Progress>,
    changed: Condvar,
    /// True once no one needs further chunks.
    stopped: AtomicBool,
}

#[derive(Debug)]
struct Progress {
    /// Number of chunks that are not mapped.
    left: usize,
    /// The reason that no further chunk will be.
    failed: Option<Arc<MemoryError>>,
}

impl<D: DeviceMemory> Chunks<D> {
    /// As many chunks as the server has announced.
    pub fn new(device: Arc<D>, count: usize) -> Self {
        Self {
            device,
            places: Vec::with_capacity(count),
            shared: Arc::new(Shared::new(count)),
            mapper: None,
        }
    }

    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// Number of chunks that are still to come.
    pub fn missing(&self) -> usize {
        self.shared.mapped.len() - self.places.len()
    }

    /// Length of all, in bytes.
    pub fn bytes(&self) -> u64 {
        self.places.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Address and length of a chunk, in bytes.
    pub fn place(&self, chunk: usize) -> Option<(u64, u64)> {
        self.places.get(chunk).copied()
    }

    /// Takes the next chunk of `bytes`: at once, or by the thread.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if there are no addresses, or a chunk mapped at once cannot be.
    pub fn take(&mut self, exported: Exported, bytes: u64) -> Result<(), MemoryError> {
        let range = self.device.reserve(bytes)?;
        let address = D::address_of(&range);
        let chunk = Ahead {
            at: self.places.len(),
            exported,
            bytes,
            range,
        };
        if let Some(address) = address
            && let Some(ahead) = self.mapper()
        {
            // After a failure no one receives it, and waits say why.
            let _received = ahead.send(chunk);
            self.places.push((address, bytes));
            return Ok(());
        }
        let mapping = chunk.map(&self.device)?;
        self.places.push((mapping.address(), bytes));
        self.shared.learn(self.places.len() - 1, Ok(mapping));
        Ok(())
    }

    /// The way to the thread, which is started if need be; `None` if it cannot be.
    fn mapper(&mut self) -> Option<&Sender<Ahead<D>>> {
        if self.mapper.is_none() {
            let (ahead, chunks) = channel();
            let (device, shared) = (Arc::clone(&self.device), Arc::clone(&self.shared));
            let thread = thread::Builder::new().name("tetris-map".to_owned());
            let thread = thread.spawn(move || shared.run(&device, &chunks)).ok()?;
            self.mapper = Some(Mapper {
                ahead: Some(ahead),
                thread,
            });
        }
        self.mapper.as_ref()?.ahead.as_ref()
    }

    /// The mapping of a chunk, if it is there.
    pub fn get(&self, chunk: usize) -> Option<&D::Mapping> {
        self.shared.mapped.get(chunk)?.get()
    }

    /// Returns true if chunks could not be mapped.
    pub fn has_failed(&self) -> bool {
        self.shared.progress().failed.is_some()
    }

    /// Waits at most `limit` until a chunk is mapped, or all are. Returns false at the limit.
    ///
    /// # Errors
    ///
    /// [`ClientError::Mapping`] if it could not be.
    pub fn wait(&self, chunk: Option<usize>, limit: Duration) -> Result<bool, ClientError> {
        if chunk.is_some_and(|chunk| self.get(chunk).is_some()) {
            return Ok(true);
        }
        let deadline = after(limit);
        let mut progress = self.shared.progress();
        loop {
            let mapped = match chunk {
                Some(chunk) => self.get(chunk).is_some(),
                None => progress.left == 0,
            };
            if mapped {
                return Ok(true);
            }
            if let Some(error) = &progress.failed {
                return Err(ClientError::Mapping(Arc::clone(error)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let waited = self.shared.changed.wait_timeout(progress, left);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has the thread map no further chunk, and does not wait for it.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
    }

    /// The mappings, once the thread has ended.
    fn end(&mut self) -> Vec<D::Mapping> {
        self.stop();
        self.places.clear();
        if let Some(mapper) = self.mapper.take() {
            drop(mapper.ahead);
            let _ended = mapper.thread.join();
        }
        let nothing = Arc::new(Shared::new(0));
        let shared = Arc::into_inner(std::mem::replace(&mut self.shared, nothing));
        let mapped = shared.map(|shared| shared.mapped).unwrap_or_default();
        mapped
            .into_iter()
            .filter_map(OnceLock::into_inner)
            .collect()
    }

    /// Unmaps all.
    pub fn unmap(&mut self) {
        drop(self.end());
    }

    /// Leaves all mapped until the process ends.
    pub fn leak(&mut self) {
        std::mem::forget(self.end());
    }

    /// Leaves all mapped in a child of the process that has them, where no thread is.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl<D: DeviceMemory> Drop for Chunks<D> {
    fn drop(&mut self) {
        self.unmap();
    }
}

impl<D: DeviceMemory> Ahead<D> {
    fn map(self, device: &D) -> Result<D::Mapping, MemoryError> {
        let chunk = device.import(self.exported, self.bytes)?;
        let protection = device.capabilities().client_protection();
        device.map(self.range, &chunk, protection)
    }
}

impl<D: DeviceMemory> Shared<D> {
    fn new(count: usize) -> Self {
        Self {
            mapped: (0..count).map(|_| OnceLock::new()).collect(),
            progress: Mutex::new(Progress {
                left: count,
                failed: None,
            }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, at: usize, mapped: Result<D::Mapping, MemoryError>) {
        let mut progress = self.progress();
        match mapped {
            Ok(mapping) => {
                if let Some(place) = self.mapped.get(at)
                    && place.set(mapping).is_ok()
                {
                    progress.left -= 1;
                }
            }
            Err(error) => progress.failed = Some(Arc::new(error)),
        }
        self.changed.notify_all();
    }

    /// Life of the thread.
    fn run(&self, device: &D, chunks: &Receiver<Ahead<D>>) {
        for chunk in chunks {
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            let at = chunk.at;
            let mapped = chunk.map(device);
            let failed = mapped.is_err();
            self.learn(at, mapped);
            if failed {
                return;
            }
        }
    }
}
