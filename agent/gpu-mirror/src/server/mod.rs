//! The mirror's server: it hands device memory out to processes, and keeps one copy of each object there.
//!
//! Flow: a tenant's client connects ([`crate::protocol`]), names a model, and is admitted ([`crate::residency`]), refused, or
//! waits. A device's thread makes the chunks and copies what is missing ([`crate::copy`]) from the store's own pages, which are mapped
//! and so referenced meanwhile. The client gets the chunks at once, and is told of each object as it arrives.
//!
//! **Guarantees.**
//!
//! - C1: a connection holds at most one model, and holds it until it says `Release` or ends, in whatever way: the socket is
//!   the lock. A killed client leaves nothing behind.
//! - C2: what a client has mapped stays valid for it when the server ends: the kernel or the driver counts who has the memory. Not with
//!   legacy IPC handles: CUDA says nothing of what an importer has after the exporter freed it or died.
//! - C3: nothing a client sends or leaves out costs others more than the connections that its user may have: every read and write
//!   has a deadline, every list a bound, and no lock is held while a client is waited for.
//! - C4: tenants share no chunk. A tenant is a store and its socket.
//!
//! **Restart.** A server starts empty. What clients of an earlier one still map is not its own and is not handed out again: it sees
//! that the device has less memory free, and keeps below that. The old memory is freed by the driver when the last of those clients
//! has let go of it. Objects that were being copied when the server died never arrive, and their clients are told so by the
//! connection's end.
//!
//! **Caveats.** Copies are made in the order of admissions, one transfer at a time for each device, so a small model waits for a
//! large one. Everyone who waits for room tries again when some is made, in no order. A child that was
//! forked while a model was held keeps it held.

mod config;
mod core;
mod error;
mod gate;
mod listen;
mod lost;
mod mailbox;
mod metrics;
mod pool;
mod report;
mod session;
mod source;
mod state;
mod tenant;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tetris_store_layout::Store;

pub use config::{DEFAULT_KEEP_PINNED, Limits, ServerConfig};
pub use error::ServerError;
pub use metrics::Counters;
pub use report::{DeviceReport, Report, TenantReport};

use self::core::Core;
use self::listen::{Bound, Listener};
use self::state::{Slot, State};
use self::tenant::Tenant;
use self::worker::{Job, Worker};
use crate::copy::{Executor, ExecutorConfig, Registrar};
use crate::memory::{DeviceInfo, DeviceMemory};
use crate::protocol::MAX_DEVICES;
use crate::residency::{DeviceId, Manager, TenantId, Usage};
use crate::wire::Bell;

/// A device that a server is to use.
#[derive(Debug)]
pub struct ServedDevice<D> {
    /// Its number.
    pub id: DeviceId,
    /// Its memory.
    pub device: Arc<D>,
    /// What the mirror may take, in bytes. Less if not as much is free when the server starts.
    pub capacity_bytes: u64,
}

/// A socket and its thread, which leaves the threads of its connections.
#[derive(Debug)]
struct Listening {
    tenant: Arc<Tenant>,
    stop: Arc<Bell>,
    thread: JoinHandle<Vec<JoinHandle<()>>>,
}

/// A server. Dropping it stops it.
#[derive(Debug)]
pub struct Server<D: DeviceMemory + 'static> {
    core: Arc<Core<D>>,
    listening: Mutex<Vec<Listening>>,
    workers: Vec<JoinHandle<()>>,
}

impl<D: DeviceMemory + 'static> Server<D> {
    /// A server of these devices, without tenants.
    pub fn start(
        devices: Vec<ServedDevice<D>>,
        config: &ServerConfig,
    ) -> Result<Self, ServerError> {
        let each = devices.into_iter().map(|served| (served, config.executor));
        Self::start_each(each.collect(), config)
    }

    /// The same, with the numbers for copies of each device: what is the best size of groups, devices may differ in.
    pub fn start_each(
        devices: Vec<(ServedDevice<D>, ExecutorConfig)>,
        config: &ServerConfig,
    ) -> Result<Self, ServerError> {
        config.limits.check()?;
        let mut manager = Manager::new(config.residency);
        let (mut slots, mut jobs) = (BTreeMap::new(), Vec::new());
        for (served, executor) in devices {
            let info = served.device.info()?;
            manager.set_capacity(served.id, served.capacity_bytes.min(info.free_bytes));
            let (id, (sender, receiver)) = (served.id, channel());
            let slot = slot(served.device, info, executor, sender);
            jobs.push((id, Arc::clone(&slot.registrar), executor, receiver));
            if slots.insert(id, slot).is_some() || slots.len() > MAX_DEVICES {
                return Err(ServerError::Devices { most: MAX_DEVICES });
            }
        }
        let mut server = Self {
            core: Arc::new(Core::new(config, State::new(manager, slots))),
            listening: Mutex::default(),
            workers: Vec::new(),
        };
        for (id, registrar, executor, receiver) in jobs {
            let worker = Worker {
                core: Arc::clone(&server.core),
                id,
                device: Arc::clone(registrar.device()),
                group_bytes: executor.group_bytes(),
                executor: Executor::with(registrar, executor),
                keep_pinned: config.keep_pinned,
            };
            server.work(worker, receiver)?;
        }
        Ok(server)
    }

    /// Starts a device's thread.
    fn work(&mut self, worker: Worker<D>, jobs: Receiver<Job>) -> Result<(), ServerError> {
        let thread = spawn("mirror-device", move || worker.run(&jobs))?;
        self.workers.push(thread);
        Ok(())
    }

    /// Serves a tenant's clients, who come through the socket `path`. `quota_bytes` bounds what the tenant's chunks take on each device.
    pub fn serve(
        &self,
        tenant: TenantId,
        store: Arc<Store>,
        quota_bytes: Option<u64>,
        path: &Path,
    ) -> Result<(), ServerError> {
        let registrable = self.core.registrable_devices();
        let tenant = Arc::new(Tenant::new(tenant, store, registrable)?);
        let bound = Bound::new(path, &self.core.closer)?;
        let stop = Bell::new().map_err(|source| ServerError::Start {
            action: "make a bell",
            source,
        })?;
        let stop = Arc::new(stop);
        self.core.state().set_quota(tenant.id, quota_bytes);
        let listener = Listener {
            core: Arc::clone(&self.core),
            tenant: Arc::clone(&tenant),
            bound,
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
        Ok(())
    }

    /// Serves a tenant's clients no longer, and hangs up on them. What they map stays theirs, and what is left on devices is evicted
    /// when others need the room. Returns whether the tenant was served. Its number is not to be used again.
    pub fn leave(&self, tenant: TenantId) -> bool {
        let left: Vec<_> = {
            let mut listening = self
                .listening
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let (left, others) = listening.drain(..).partition(|one| one.tenant.id == tenant);
            *listening = others;
            left
        };
        let pools: Vec<_> = left
            .iter()
            .map(|one| Arc::clone(&one.tenant.pool))
            .collect();
        end(left, || self.core.gate.hang_up(tenant));
        for pool in &pools {
            // A load that still runs gives up its own when it ends.
            pool.close();
            self.core.unpin(pool);
        }
        !pools.is_empty()
    }

    /// Gives up what of a tenant's store is registered for copies, so that the store can reclaim it, but for what a copy under way
    /// uses. Returns how many bytes that were. The next load of such objects registers them again.
    pub fn unpin(&self, tenant: TenantId) -> u64 {
        let pools: Vec<_> = {
            let listening = self.listening.lock();
            let listening = listening.unwrap_or_else(PoisonError::into_inner);
            let own = listening.iter().filter(|one| one.tenant.id == tenant);
            own.map(|one| Arc::clone(&one.tenant.pool)).collect()
        };
        pools.iter().map(|pool| self.core.unpin(pool)).sum()
    }

    /// Changes what clients may take. Connections that there are stay.
    pub fn set_limits(&self, limits: Limits) -> Result<(), ServerError> {
        limits.check()?;
        self.core.set_limits(limits);
        Ok(())
    }

    /// Changes what a tenant's chunks may take on each device. What it holds stays when that is less than before.
    pub fn set_quota(&self, tenant: TenantId, quota_bytes: Option<u64>) {
        self.core.state().set_quota(tenant, quota_bytes);
    }

    /// Has each device asked whether it still works, by its own thread: one that does not is given up.
    pub fn check(&self) {
        self.core.state().check_devices();
    }

    /// What the server has done.
    pub fn counters(&self) -> Counters {
        self.core.metrics.counters()
    }

    /// How a device is used.
    pub fn usage(&self, device: DeviceId) -> Option<Usage> {
        self.core.state().manager.usage(device)
    }

    /// Who is served.
    fn tenants(&self) -> Vec<TenantId> {
        let listening = self.listening.lock();
        let listening = listening.unwrap_or_else(PoisonError::into_inner);
        listening.iter().map(|one| one.tenant.id).collect()
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.core.gate.len()
    }
}

impl<D: DeviceMemory + 'static> Drop for Server<D> {
    fn drop(&mut self) {
        let listening = self.listening.get_mut();
        let listening = std::mem::take(listening.unwrap_or_else(PoisonError::into_inner));
        end(listening, || self.core.gate.close());
        // Without devices nobody can send jobs any more, and the workers end after those that they have.
        let slots = std::mem::take(&mut self.core.state().devices);
        drop(slots);
        for worker in self.workers.drain(..) {
            note(&worker.join());
        }
    }
}

/// A device without a chunk.
fn slot<D: DeviceMemory>(
    device: Arc<D>,
    info: DeviceInfo,
    executor: ExecutorConfig,
    jobs: Sender<Job>,
) -> Slot<D> {
    let registrar = Registrar::new(Arc::clone(&device), executor.pin_limit_bytes());
    Slot {
        device,
        uuid: info.uuid,
        name: info.name,
        group_bytes: executor.group_bytes(),
        registrar: Arc::new(registrar),
        lost: None,
        checking: false,
        chunks: BTreeMap::new(),
        jobs,
    }
}

/// Ends sockets, and then the connections that came through them, which `hang_up` tells to end.
fn end(listening: Vec<Listening>, hang_up: impl FnOnce()) {
    for one in &listening {
        one.stop.ring();
    }
    let left: Vec<_> = listening.into_iter().map(|one| one.thread.join()).collect();
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
