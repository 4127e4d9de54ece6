//! State that all threads of a server share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use tetris_store_layout::ObjectId;
use tetris_wire::Closer;

use super::connection_limit::ConnectionLimit;
use super::damaged::Damaged;
use super::importer::Importers;
use super::jobs::Load;
use super::metrics::Metrics;
use super::object_limit::ObjectLimit;
use super::pool::Pool;
use super::state::{Ask, Held, State};
use super::{Limits, ServerConfig};
use crate::copy::Registrar;
use crate::residency::{ClientId, DeviceId, Refusal, TenantId};
use tetris_gpu_device::{DeviceMemory, DeviceUuid, HostSlice, MemoryError};
use tetris_gpu_protocol::Reason;

/// Number of threads that close descriptors of clients.
const CLOSING_THREADS: usize = 8;

/// State that all threads of a server share.
#[derive(Debug)]
pub(super) struct Core<D: DeviceMemory> {
    limits: RwLock<Limits>,
    writable_registration: bool,
    pub metrics: Metrics,
    pub connections: Arc<ConnectionLimit>,
    /// Mapped objects of models that wait or are copied.
    pub mapped: Arc<ObjectLimit>,
    /// Objects of models that clients hold or ask for.
    pub held: Arc<ObjectLimit>,
    /// Processes that got chunks.
    pub importers: Importers,
    /// Closes clients' streams, and the descriptors that they passed.
    pub closer: Closer,
    /// Held while a manifest is read: at most one is in memory, regardless of the number of
    /// clients.
    pub manifests: Mutex<()>,
    state: Mutex<State<D>>,
    started: Instant,
}

impl<D: DeviceMemory> Core<D> {
    pub fn new(config: &ServerConfig, state: State<D>) -> Self {
        Self {
            limits: RwLock::new(config.limits),
            writable_registration: config.writable_registration,
            metrics: Metrics::default(),
            connections: Arc::default(),
            mapped: Arc::new(ObjectLimit::new(config.limits.mapped_objects)),
            held: Arc::new(ObjectLimit::new(config.limits.held_objects)),
            importers: Importers::default(),
            closer: Closer::new(CLOSING_THREADS),
            manifests: Mutex::default(),
            state: Mutex::new(state),
            started: Instant::now(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets checked limits. Existing connections stay.
    pub fn set_limits(&self, limits: Limits) {
        let mut inside = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        *inside = limits;
    }

    /// Time since the server started, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Finds the device with this UUID.
    pub fn device(&self, uuid: DeviceUuid) -> Option<DeviceId> {
        let state = self.state();
        let mut devices = state.devices.iter();
        let slot = devices.find(|(_, slot)| slot.uuid == uuid);
        slot.map(|(id, _)| *id)
    }

    /// Devices that need objects mapped so that their pages can be made writable during the
    /// registration.
    pub fn registrable_devices(&self) -> BTreeSet<DeviceId> {
        if !self.writable_registration {
            return BTreeSet::new();
        }
        let state = self.state();
        let devices = state.devices.iter();
        let wanted = devices.filter(|(_, slot)| !slot.device.capabilities().registers_read_only);
        wanted.map(|(id, _)| *id).collect()
    }

    pub fn admit(&self, ask: &Ask<'_>) -> Result<Held, Refusal> {
        let mut state = self.state();
        // Chunks of processes that have ended are free from now on.
        state.sweep();
        state.admit(ask, &self.metrics)
    }

    pub fn end(&self, client: ClientId) {
        let now_ms = self.now_ms();
        self.state().end(client, now_ms, &self.metrics);
        self.fill_templates();
    }

    pub fn give_up_unwanted(&self, device: DeviceId, load: &Load) -> bool {
        let now_ms = self.now_ms();
        self.state()
            .give_up_unwanted(device, load, now_ms, &self.metrics)
    }

    pub fn arrived(&self, device: DeviceId, tenant: TenantId, object: &ObjectId) {
        self.state().arrived(device, tenant, object, &self.metrics);
    }

    /// Adds a registrar's new and reused registrations to the counters.
    pub fn count_registrations(&self, registrar: &Registrar<D>) {
        let uses = registrar.take_uses();
        self.metrics.registrations.add(uses.made);
        self.metrics.reused_registrations.add(uses.reused);
    }

    /// Unregisters a store's pages that no copy uses at the moment, on all devices. Returns the
    /// number of bytes unregistered.
    pub fn unpin(&self, pool: &Pool) -> u64 {
        let slots: Vec<_> = {
            let state = self.state();
            let registrars = state.devices.values().map(|slot| &slot.registrar);
            registrars.map(Arc::clone).collect()
        };
        let mut bytes = 0;
        for mapping in pool.alive() {
            let memory = HostSlice::whole(mapping);
            let given_up = slots.iter().map(|registrar| registrar.give_up(&memory));
            bytes += given_up.sum::<u64>();
        }
        bytes
    }

    /// Gives up a device that answered with `error`. Drops its remaining chunks outside the lock,
    /// because the driver may be slow.
    pub fn lose(&self, device: DeviceId, error: &MemoryError) {
        let chunks = self.state().lose(device, &error.to_string());
        drop(chunks);
    }

    /// Drops an object with other bytes than its own.
    pub fn damaged(&self, device: DeviceId, damaged: Damaged) {
        let now_ms = self.now_ms();
        self.state().damaged(device, damaged, now_ms, &self.metrics);
    }

    pub fn failed(&self, device: DeviceId, load: &Load, why: &(Reason, String)) {
        let now_ms = self.now_ms();
        self.state()
            .failed(device, load, why, now_ms, &self.metrics);
    }
}
