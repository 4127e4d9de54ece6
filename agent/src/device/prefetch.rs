//! Models that the mirror has on a device for this process, which does not map them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tetris_gpu_client::{Client, Prefetched, Wanted};
use tetris_gpu_device::DeviceUuid;
use tetris_store_layout::Digest;

use super::describe::identity;
use super::load::MOST;
use super::named::NamedModel;
use super::status::any;
use super::{DEFAULT_TIMEOUT, DeviceError, Registry, split};
use crate::Agent;
use crate::known_model::StoredTensor;
use crate::options::LoadOptions;
use crate::report::LoadReport;

/// Longest time until a close is noticed while bytes are on their way.
const SLICE: Duration = Duration::from_millis(20);

/// Options of a prefetch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PrefetchOptions {
    /// Number of the device at the mirror; without it the mirror chooses the one that has most of
    /// the model.
    pub device: Option<u32>,
    /// As of [`DeviceOptions::order`](super::DeviceOptions::order).
    pub order: Vec<String>,
    /// Maximum wait for room on the device; 5 minutes by default, which is also the mirror's limit.
    pub wait: Duration,
    /// Timeout of an answer of the mirror; see [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// Options of the load into the store, where it goes in any size.
    pub host: LoadOptions,
}

impl Default for PrefetchOptions {
    fn default() -> Self {
        Self {
            device: None,
            order: Vec::new(),
            wait: Duration::from_mins(5),
            timeout: DEFAULT_TIMEOUT,
            host: LoadOptions::default(),
        }
    }
}

/// State of a prefetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchState {
    /// The model is on its way: into the store, or from there to the device.
    Loading,
    /// It waits for room on the device.
    Waiting,
    /// All of it is on the device, and stays there.
    Resident,
    /// It is not on the device, or not any more.
    Failed,
    /// It was closed.
    Closed,
}

/// A model that the mirror has on a device, or gets there, for this process. It stays there until
/// this value is closed or dropped. The process has no access to the memory: a load maps it, and
/// copies nothing.
#[derive(Debug)]
pub struct Prefetch {
    shared: Arc<Shared>,
    /// Process that made it: a forked child has a copy of this value, and of its connections.
    process: u32,
}

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Known {
    state: PrefetchState,
    model: Option<Digest>,
    bytes: u64,
    bytes_left: u64,
    error: Option<Arc<DeviceError>>,
    /// Once the model is resident.
    held: Vec<Prefetched>,
}

impl Registry {
    /// Has the mirror bring a model to a device and keep it there: a safetensors file, or a
    /// directory in the layout of Hugging Face. Returns at once; a thread does the rest.
    ///
    /// # Errors
    /// [`DeviceError`] if there is no store or no mirror, or if the thread cannot be started.
    pub fn prefetch(
        self: &Arc<Self>,
        agent: &Agent,
        path: impl AsRef<Path>,
        options: PrefetchOptions,
    ) -> Result<Prefetch, DeviceError> {
        let first = connected(agent, &options)?;
        let shared = Arc::new(Shared {
            known: Mutex::new(Known {
                state: PrefetchState::Loading,
                model: None,
                bytes: 0,
                bytes_left: 0,
                error: None,
                held: Vec::new(),
            }),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        });
        let job = Job {
            registry: Arc::clone(self),
            agent: agent.clone(),
            path: path.as_ref().to_owned(),
            options,
            shared: Arc::clone(&shared),
            first: Some(first),
        };
        let thread = thread::Builder::new().name("tetris-prefetch".to_owned());
        thread
            .spawn(move || job.run())
            .map_err(DeviceError::Thread)?;
        Ok(Prefetch {
            shared,
            process: std::process::id(),
        })
    }
}

impl Prefetch {
    /// Its state, by the mirror's latest message.
    pub fn state(&self) -> PrefetchState {
        self.shared.looked().state
    }

    /// The reason that it failed.
    pub fn error(&self) -> Option<Arc<DeviceError>> {
        self.shared.looked().error.clone()
    }

    /// Identity of the model's content, once its files have been recognized.
    pub fn model(&self) -> Option<Digest> {
        self.shared.lock().model
    }

    /// Length of the model's objects in bytes; 0 until its files have been recognized.
    pub fn bytes(&self) -> u64 {
        self.shared.lock().bytes
    }

    /// Length of the objects that are not on the device, in bytes.
    pub fn bytes_left(&self) -> u64 {
        self.shared.lock().bytes_left
    }

    /// Waits at most `limit` until the model is resident; returns false at the limit.
    ///
    /// # Errors
    /// The reason that it failed; [`DeviceError::Cancelled`] if it was closed.
    pub fn wait(&self, limit: Duration) -> Result<bool, Arc<DeviceError>> {
        let begun = Instant::now();
        let mut known = self.shared.looked();
        loop {
            match known.state {
                PrefetchState::Resident => return Ok(true),
                PrefetchState::Closed => return Err(Arc::new(DeviceError::Cancelled)),
                PrefetchState::Failed => {
                    let error = known.error.clone();
                    return Err(error.unwrap_or_else(|| Arc::new(DeviceError::Cancelled)));
                }
                PrefetchState::Loading | PrefetchState::Waiting => {}
            }
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            let waited = self.shared.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets go of the model: the mirror may evict it. In a forked child the parent's hold stays.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        let prefetched = {
            let mut known = self.shared.lock();
            known.state = PrefetchState::Closed;
            std::mem::take(&mut known.held)
        };
        self.shared.changed.notify_all();
        let ours = self.process == std::process::id();
        for entry in prefetched {
            if ours {
                // Also for children that share the connection.
                entry.hang_up();
            }
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Known state, with the mirror's latest messages.
    fn looked(&self) -> MutexGuard<'_, Known> {
        let mut known = self.lock();
        let mut prefetched = known.held.iter();
        let failed = prefetched.find_map(|entry| entry.wait(Duration::ZERO).err());
        if let Some(error) = failed {
            known.fail(error.into());
        }
        known
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn check(&self) -> Result<(), DeviceError> {
        if self.is_closed() {
            return Err(DeviceError::Cancelled);
        }
        Ok(())
    }

    /// Records news, unless it was closed.
    fn learn(&self, news: impl FnOnce(&mut Known)) {
        let mut known = self.lock();
        if !self.is_closed() {
            news(&mut known);
        }
        drop(known);
        self.changed.notify_all();
    }
}

impl Known {
    fn fail(&mut self, error: DeviceError) {
        self.state = PrefetchState::Failed;
        self.error = Some(Arc::new(error));
        self.held.clear();
    }
}

/// The thread's work.
struct Job {
    registry: Arc<Registry>,
    agent: Agent,
    path: PathBuf,
    options: PrefetchOptions,
    shared: Arc<Shared>,
    /// The connection of the first request, if it can follow at once.
    first: Option<(Client, Option<DeviceUuid>)>,
}

/// A connection, and the identity of the device, if one was named.
fn connected(
    agent: &Agent,
    options: &PrefetchOptions,
) -> Result<(Client, Option<DeviceUuid>), DeviceError> {
    let (mut client, _) = any(agent, options.timeout)?;
    let on = match options.device {
        Some(number) => Some(identity(&mut client, Some(number))?),
        None => None,
    };
    Ok((client, on))
}

impl Job {
    fn run(mut self) {
        match self.held() {
            Ok(held) => self.shared.learn(|known| {
                known.state = PrefetchState::Resident;
                known.bytes_left = 0;
                known.held = held;
            }),
            Err(error) => self.shared.learn(|known| {
                tracing::debug!(%error, "a model was not prefetched");
                known.fail(error);
            }),
        }
    }

    /// Brings the model to the device.
    fn held(&mut self) -> Result<Vec<Prefetched>, DeviceError> {
        let through_store = self.options.host.clone().with_min_shared_bytes(0);
        let agent = self.agent.clone();
        if let Some(known) = agent.known_model(&self.path, &through_store) {
            let bring = || self.bring(&known.tensors, &known.report);
            match known.while_compared(&agent, &through_store, bring) {
                None => {}
                Some(Err(error)) if error.is_for_missing_objects() => {}
                Some(held) => {
                    self.agent.count(&known.report, 0, Some(&self.path));
                    return held;
                }
            }
        }
        // The mirror does not keep an idle connection, and the load may take long.
        self.first = None;
        let host = self.agent.load_with(&self.path, &through_store)?;
        // Its objects stay referenced in the store until they are on the device.
        let (host, report) = host.detach();
        let tensors: Vec<_> = host.iter().map(StoredTensor::from).collect();
        self.bring(&tensors, &report)
    }

    /// Brings objects of the store to the device.
    fn bring(
        &mut self,
        tensors: &[StoredTensor],
        report: &LoadReport,
    ) -> Result<Vec<Prefetched>, DeviceError> {
        let objects = split::objects(tensors, report)?;
        let named = NamedModel::new(&objects, MOST)?;
        self.registry.name(&named);
        self.shared.learn(|known| {
            known.model = Some(named.model);
            known.bytes = named.bytes;
            known.bytes_left = named.bytes;
        });
        let (order, wait) = (&self.options.order, self.options.wait);
        let wanted = split::wanted(&objects, tensors, order, wait, MOST);
        let mut prefetched: Vec<Prefetched> = Vec::with_capacity(wanted.len());
        for wanted in &wanted {
            let part = self.part(wanted, prefetched.first())?;
            prefetched.push(part);
        }
        while !self.has_arrived(&prefetched)? {}
        Ok(prefetched)
    }

    /// Has a part admitted: on the device of the first one.
    fn part(
        &mut self,
        wanted: &Wanted,
        first: Option<&Prefetched>,
    ) -> Result<Prefetched, DeviceError> {
        self.shared.check()?;
        let (client, on) = match self.first.take() {
            Some(connected) => connected,
            None => connected(&self.agent, &self.options)?,
        };
        let on = first.map(Prefetched::device).or(on);
        let hang_up = client.hang_up()?;
        let part = client.prefetch(on, wanted, &mut |waiting| {
            if self.shared.is_closed() {
                hang_up.now();
            } else if waiting.need_bytes > 0 {
                self.shared
                    .learn(|known| known.state = PrefetchState::Waiting);
            }
        });
        self.shared.check()?;
        self.shared
            .learn(|known| known.state = PrefetchState::Loading);
        Ok(part?)
    }

    /// Waits a while; returns true once all bytes are on the device.
    fn has_arrived(&self, held: &[Prefetched]) -> Result<bool, DeviceError> {
        self.shared.check()?;
        let mut is_complete = true;
        for part in held {
            is_complete &= part.wait(SLICE)?;
        }
        let bytes_left = held.iter().map(Prefetched::bytes_left).sum();
        self.shared.learn(|known| known.bytes_left = bytes_left);
        Ok(is_complete)
    }
}
