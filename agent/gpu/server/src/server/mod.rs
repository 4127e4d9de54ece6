//! The mirror's server: it shares device memory with processes, and keeps one copy of each object
//! there.
//!
//! Flow: a tenant's client connects ([`tetris_gpu_protocol`]) and requests a model. The server admits
//! it ([`crate::residency`]), refuses it, or lets it wait. A device's thread creates the chunks and
//! copies the missing objects ([`crate::copy`]) from the store's pages, which are mapped and so
//! referenced during that time. Another thread registers these pages for the next time, while no
//! copy runs. The client gets the chunks at once, and a message for objects as
//! they arrive.
//!
//! **Guarantees.**
//!
//! - C1: a connection holds at most one model, until it sends `Release` or ends for any reason: the
//!   socket is the lock. A killed client leaves nothing behind.
//! - C2: a client's mappings stay valid when the server ends: the kernel or the driver counts the
//!   references. With legacy IPC handles they do not: CUDA leaves an importer's memory undefined
//!   after the exporter freed it or died.
//! - C3: a client cannot cost others more than the connections that its user may have: every read
//!   and write has a deadline, every list a bound, and the server holds no lock while it waits for
//!   a client.
//! - C4: tenants share no chunk. A tenant is a store and its socket.
//! - C5: a chunk is cleared before a client gets it, so no client sees bytes of another tenant.
//! - C6: a chunk counts until its memory is free: the device reports it when it is released, or else the
//!   last process that got it has ended.
//! - C7: with several tenants, none takes all connections: each may have as many as are free. The same holds for the
//!   objects of held models, and for mapped objects of models that wait or are copied.
//!
//! - C8: the capacity of a device is at most the memory that the server has there and what is free
//!   beside it. Where other programs take the memory first, a load waits for some seconds, then idle
//!   models leave, then the load is refused.
//! - C9: a client that waits for chunks hears of the server every second, as long as the device's
//!   thread returns from the driver. Others' copies do not delay its chunks.
//! - C10: the prefix of a model that a client asked to keep stays on its device, within the budget
//!   ([`TemplateConfig`]). Its length follows the measured bandwidth and time to first token. It
//!   makes room for clients, from its end, and comes back when they have left.
//!
//! **Restart.** A server starts empty. It does not own or hand out memory that clients of an
//! earlier server still map: it sees less free memory on the device and stays below that. The
//! driver frees the old memory when the last of those clients has released it. Objects in flight
//! when the server died never arrive, and their clients notice the end of the connection.
//!
//! **Caveats.** Copies run in the order of admissions, one transfer at a time for each device, so a
//! small model's objects wait for those of a large one. All clients that wait for room retry when some becomes free,
//! in no order. A child forked while its parent held a model keeps the model held.

mod across;
mod check;
mod chunk;
mod config;
mod connection_limit;
mod core;
mod damaged;
mod error;
mod failure;
mod importer;
mod jobs;
mod lingering;
mod links;
mod listen;
mod lost;
mod mailbox;
mod maker;
mod metrics;
mod object_limit;
mod pool;
mod prefixes;
mod pressure;
mod report;
mod session;
mod source;
mod spare_room;
mod spares;
mod state;
mod templates;
mod tenant;
mod transfers;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tetris_store_layout::Store;
use tetris_wire::Bell;

pub use config::{
    DEFAULT_KEEP_PINNED, DEFAULT_MEMORY_PATIENCE, DEFAULT_TTFT, Limits, ServerConfig,
    TemplateConfig,
};
pub use error::ServerError;
pub use links::DeviceLinks;
pub use metrics::Counters;
pub use report::{DeviceReport, Report, Resident, TenantReport};
pub use templates::TemplateReport;

use self::check::Checker;
use self::core::Core;
use self::jobs::Job;
use self::listen::{Listener, TenantSocket};
use self::maker::Maker;
use self::spares::Spares;
use self::state::{Slot, State};
use self::tenant::Tenant;
use self::transfers::Transfers;
use self::worker::Worker;
use crate::copy::{Executor, ExecutorConfig, Registrar, RegistrationThread};
use crate::residency::{DeviceId, Manager, TenantId, Usage};
use tetris_gpu_device::{DeviceInfo, DeviceMemory};
use tetris_gpu_protocol::MAX_DEVICES;

/// A device for a server.
#[derive(Debug)]
pub struct ServedDevice<D> {
    /// Its number.
    pub id: DeviceId,
    /// Its memory.
    pub device: Arc<D>,
    /// Limit of the mirror's memory in bytes. The server uses less while other programs have the
    /// memory.
    pub capacity_bytes: u64,
}

/// A socket and its thread, which returns the threads of its connections.
#[derive(Debug)]
struct Listening {
    tenant: Arc<Tenant>,
    stop: Arc<Bell>,
    thread: JoinHandle<Vec<JoinHandle<()>>>,
}

/// A server. Its drop stops it.
#[derive(Debug)]
pub struct Server<D: DeviceMemory + 'static> {
    core: Arc<Core<D>>,
    listening: Mutex<Vec<Listening>>,
    workers: Vec<JoinHandle<()>>,
    /// Threads that register pages, one for each device.
    registration: Vec<RegistrationThread<D>>,
}

impl<D: DeviceMemory + 'static> Server<D> {
    /// Starts a server of these devices, without tenants.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if a limit is out of range, a device fails or occurs twice, or a thread
    /// cannot start.
    pub fn start(
        devices: Vec<ServedDevice<D>>,
        config: &ServerConfig,
    ) -> Result<Self, ServerError> {
        let served = devices.into_iter().map(|served| (served, config.executor));
        Self::start_each(served.collect(), config)
    }

    /// Starts a server like [`Self::start`], with an executor configuration for each device: the
    /// best group size can differ between devices. Makes the pinned buffers of each device, so that
    /// the first load need not.
    pub fn start_each(
        devices: Vec<(ServedDevice<D>, ExecutorConfig)>,
        config: &ServerConfig,
    ) -> Result<Self, ServerError> {
        config.limits.check()?;
        let mut residency = config.residency;
        if config.spare_bytes > 0 {
            residency.arena = residency.arena.with_whole_chunks();
        }
        let mut manager = Manager::new(residency);
        let (mut slots, mut jobs) = (BTreeMap::new(), Vec::new());
        for (served, executor) in devices {
            let info = served.device.info()?;
            warn_of_mode(served.id, &info);
            let limit_bytes = served.capacity_bytes.min(info.total_bytes);
            manager.set_capacity(served.id, limit_bytes.min(info.free_bytes));
            manager.set_limit(served.id, limit_bytes);
            let (id, (sender, receiver)) = (served.id, channel());
            let slot = slot(served.device, info, limit_bytes, executor, config, sender);
            jobs.push((id, Arc::clone(&slot.registrar), executor, receiver));
            if slots.insert(id, slot).is_some() || slots.len() > MAX_DEVICES {
                return Err(ServerError::Devices { most: MAX_DEVICES });
            }
        }
        let mut server = Self {
            core: Arc::new(Core::new(
                config,
                State::new(manager, slots, config.templates),
            )),
            listening: Mutex::default(),
            workers: Vec::new(),
            registration: Vec::new(),
        };
        for (id, registrar, executor, receiver) in jobs {
            server.register(&registrar, config.keep_pinned)?;
            let group_bytes = executor.group_bytes();
            let mut executor = Executor::with(registrar, executor);
            if let Err(error) = executor.prepare() {
                tracing::warn!(%error, device = %id, "no pinned buffers yet: the first load makes them");
            }
            let maker = Maker {
                core: Arc::clone(&server.core),
                id,
                device: Arc::clone(executor.registrar().device()),
                patience: config.memory_patience,
            };
            while maker.make_spare() {}
            let worker = Worker {
                core: Arc::clone(&server.core),
                id,
                device: Arc::clone(executor.registrar().device()),
                group_bytes,
                executor,
                checker: Checker::new(config.check_bytes_per_sec),
                across: None,
            };
            server.work(maker, worker, receiver)?;
        }
        Ok(server)
    }

    /// Starts a device's threads.
    fn work(
        &mut self,
        maker: Maker<D>,
        worker: Worker<D>,
        jobs: Receiver<Job>,
    ) -> Result<(), ServerError> {
        let (sender, copies) = channel();
        let thread = spawn("mirror-chunks", move || maker.run(&jobs, &sender))?;
        self.workers.push(thread);
        let thread = spawn("mirror-device", move || worker.run(&copies))?;
        self.workers.push(thread);
        Ok(())
    }

    /// Starts the thread that registers pages for a device.
    fn register(
        &mut self,
        registrar: &Arc<Registrar<D>>,
        keep: Duration,
    ) -> Result<(), ServerError> {
        let core = Arc::clone(&self.core);
        let counted = move |registrar: &Registrar<D>| core.count_registrations(registrar);
        let thread = RegistrationThread::start(Arc::clone(registrar), keep, counted);
        let thread = thread.map_err(|source| ServerError::Start {
            action: "start a thread",
            source,
        })?;
        self.registration.push(thread);
        Ok(())
    }

    /// Serves a tenant's clients at the socket `path`. `quota_bytes` limits the tenant's chunks on
    /// each device.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the store has another owner, or the socket cannot be created or is in
    /// use.
    pub fn serve(
        &self,
        tenant: TenantId,
        store: Arc<Store>,
        quota_bytes: Option<u64>,
        path: &Path,
    ) -> Result<(), ServerError> {
        let registrable = self.core.registrable_devices();
        let tenant = Arc::new(Tenant::new(tenant, store, registrable, &self.core.mapped)?);
        let socket = TenantSocket::new(path, &self.core.closer)?;
        let stop = Bell::new().map_err(|source| ServerError::Start {
            action: "make a bell",
            source,
        })?;
        let stop = Arc::new(stop);
        self.core.state().set_quota(tenant.id, quota_bytes);
        let listener = Listener {
            core: Arc::clone(&self.core),
            tenant: Arc::clone(&tenant),
            socket,
            stop: Arc::clone(&stop),
        };
        let thread = spawn("mirror-socket", move || listener.run())?;
        let mut listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listening.push(Listening {
            tenant,
            stop,
            thread,
        });
        self.core.connections.set_tenants(listening.len());
        Ok(())
    }

    /// Stops serving a tenant, and hangs up on its clients. Their mappings stay, and the tenant's
    /// models are evicted when others need the room. Returns true if the tenant was served. Its
    /// number must not be reused.
    pub fn leave(&self, tenant: TenantId) -> bool {
        let left: Vec<_> = {
            let mut listening = self
                .listening
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let (left, others) = listening
                .drain(..)
                .partition(|entry| entry.tenant.id == tenant);
            *listening = others;
            self.core.connections.set_tenants(listening.len());
            left
        };
        let pools: Vec<_> = left
            .iter()
            .map(|entry| Arc::clone(&entry.tenant.pool))
            .collect();
        end(left, || self.core.connections.hang_up(tenant));
        let now_ms = self.core.now_ms();
        let metrics = &self.core.metrics;
        self.core.state().forget_templates(tenant, now_ms, metrics);
        for pool in &pools {
            // A load that still runs unregisters its pages when it ends.
            pool.close();
            self.core.unpin(pool);
        }
        self.core.state().leave(tenant);
        !pools.is_empty()
    }

    /// Unregisters the pages of a tenant's store, except those that a copy uses, so that the store
    /// can reclaim them. Returns the number of bytes unregistered. The next load of such objects
    /// registers them again.
    pub fn unpin(&self, tenant: TenantId) -> u64 {
        let pools: Vec<_> = {
            let listening = self.listening.lock();
            let listening = listening.unwrap_or_else(PoisonError::into_inner);
            let of_tenant = listening.iter().filter(|entry| entry.tenant.id == tenant);
            of_tenant
                .map(|listening| Arc::clone(&listening.tenant.pool))
                .collect()
        };
        pools.iter().map(|pool| self.core.unpin(pool)).sum()
    }

    /// Changes the limits of clients. Existing connections stay.
    ///
    /// # Errors
    ///
    /// [`ServerError::Limits`] if a limit is out of range.
    pub fn set_limits(&self, limits: Limits) -> Result<(), ServerError> {
        limits.check()?;
        self.core.set_limits(limits);
        Ok(())
    }

    /// Changes the limit of a tenant's chunks on each device in bytes. A lower limit evicts nothing
    /// at once.
    pub fn set_quota(&self, tenant: TenantId, quota_bytes: Option<u64>) {
        self.core.state().set_quota(tenant, quota_bytes);
    }

    /// Asks each device's thread to check if the device still works. The server gives up a device
    /// that does not. Prefixes that made room for clients are filled again, where there is room.
    pub fn check(&self) {
        {
            let mut state = self.core.state();
            state.sweep();
            state.check_devices();
        }
        self.core.fill_templates();
    }

    /// Returns the server's counters.
    pub fn counters(&self) -> Counters {
        self.core.metrics.counters()
    }

    /// Returns the usage of a device.
    pub fn usage(&self, device: DeviceId) -> Option<Usage> {
        let mut state = self.core.state();
        state.sweep();
        state.manager.usage(device)
    }

    /// The tenants served.
    fn tenants(&self) -> Vec<TenantId> {
        let listening = self.listening.lock();
        let listening = listening.unwrap_or_else(PoisonError::into_inner);
        listening
            .iter()
            .map(|listening| listening.tenant.id)
            .collect()
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.core.connections.len()
    }
}

impl<D: DeviceMemory + 'static> Drop for Server<D> {
    fn drop(&mut self) {
        let listening = self.listening.get_mut();
        let listening = std::mem::take(listening.unwrap_or_else(PoisonError::into_inner));
        end(listening, || self.core.connections.close());
        // Without devices no thread can send jobs any more, and the workers end after their
        // remaining jobs.
        let slots = std::mem::take(&mut self.core.state().devices);
        drop(slots);
        for worker in self.workers.drain(..) {
            note(&worker.join());
        }
        // The registered pages go with the last of these.
        self.registration.clear();
    }
}

/// Creates a device without chunks.
fn slot<D: DeviceMemory>(
    device: Arc<D>,
    info: DeviceInfo,
    limit_bytes: u64,
    executor: ExecutorConfig,
    config: &ServerConfig,
    jobs: Sender<Job>,
) -> Slot<D> {
    let pin_limit_bytes = if config.keep_pinned.is_zero() {
        0
    } else {
        executor.pin_limit_bytes()
    };
    let chunk_bytes = config.residency.arena.chunk_bytes();
    let group_bytes = executor.group_bytes();
    let registrar = Registrar::new(Arc::clone(&device), pin_limit_bytes, group_bytes);
    Slot {
        device,
        uuid: info.uuid,
        name: info.name,
        mode: info.mode,
        total_bytes: info.total_bytes,
        limit_bytes,
        making: None,
        making_bytes: 0,
        group_bytes: executor.group_bytes(),
        registrar: Arc::new(registrar),
        lost: None,
        checking: None,
        chunks: BTreeMap::new(),
        lingering: BTreeMap::new(),
        spares: Spares::new(config.spare_bytes, chunk_bytes),
        links: DeviceLinks::default(),
        transfers: Transfers::default(),
        jobs,
    }
}

/// Says at the start what a device's mode means for clients.
fn warn_of_mode(device: DeviceId, info: &DeviceInfo) {
    if let Some(trouble) = info.mode.trouble() {
        tracing::warn!(%device, uuid = %info.uuid, mode = info.mode.name(), "{trouble}");
    }
}

/// Stops the sockets, and then their connections, which `hang_up` ends.
fn end(listening: Vec<Listening>, hang_up: impl FnOnce()) {
    for entry in &listening {
        entry.stop.ring();
    }
    let left: Vec<_> = listening
        .into_iter()
        .map(|listening| listening.thread.join())
        .collect();
    hang_up();
    for thread in left.into_iter().flatten().flatten() {
        note(&thread.join());
    }
}

fn note(ended: &std::thread::Result<()>) {
    if ended.is_err() {
        tracing::error!("a thread of the mirror's server panicked");
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServerError> {
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|source| ServerError::Start {
        action: "start a thread",
        source,
    })
}
