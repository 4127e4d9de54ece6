//! State of the server: the plan ([`Manager`]), the existing chunks, and the clients with pending
//! news.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use tetris_store_layout::{ObjectId, ObjectRef};

use super::TemplateConfig;
use super::chunk::{ChunkName, Physical};
use super::damaged::Damaged;
use super::importer::Importer;
use super::jobs::{Job, Load};
use super::links::DeviceLinks;
use super::mailbox::Mailbox;
use super::metrics::Metrics;
use super::source::Sources;
use super::spares::Spares;
use super::templates::Templates;
use super::transfers::Transfers;
use crate::arena::{ChunkId, ObjectPlace};
use crate::copy::Registrar;
use crate::residency::{
    Admission, ClientId, Copy, DeviceId, Failed, Freed, Manager, ModelSpec, Refusal, TenantId,
};
use tetris_gpu_device::{DeviceMemory, DeviceMode, DeviceUuid};
use tetris_gpu_protocol::Reason;

/// A device.
#[derive(Debug)]
pub(super) struct Slot<D: DeviceMemory> {
    pub device: Arc<D>,
    pub uuid: DeviceUuid,
    pub name: String,
    /// Mode in which processes may use it, at the server's start.
    pub mode: DeviceMode,
    /// Length of its memory, in bytes.
    pub total_bytes: u64,
    /// Most memory of the mirror there, in bytes; other programs can make its capacity less.
    pub limit_bytes: u64,
    /// Start of the call of the driver that the thread which makes chunks has not returned from.
    pub making: Option<Instant>,
    /// Length of the chunk that is being created, in bytes.
    pub making_bytes: u64,
    /// Group size of copies, in bytes.
    pub group_bytes: u64,
    /// Registrations of the stores' pages.
    pub registrar: Arc<Registrar<D>>,
    /// The reason the device is lost; `None` while it works.
    pub lost: Option<String>,
    /// Time of the check that the device's thread has not begun.
    pub checking: Option<Instant>,
    pub chunks: BTreeMap<ChunkName, Physical<D>>,
    /// Released chunks whose memory is not free, with the processes that may have it.
    pub lingering: BTreeMap<ChunkName, Vec<Arc<Importer>>>,
    /// Chunks without objects.
    pub spares: Spares<D>,
    /// Its links to the host and to other devices.
    pub links: DeviceLinks,
    /// Transfers that have not ended.
    pub transfers: Transfers,
    /// Queue of its worker, in the order of admissions.
    pub jobs: Sender<Job>,
}

/// A model that a connection holds.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) tenant: TenantId,
    pub device: DeviceId,
    /// Chunks with the model's objects.
    pub(super) chunks: Vec<ChunkId>,
    /// Objects that have not arrived, and their indexes.
    pub left: BTreeMap<ObjectId, u32>,
    /// True if its chunks were passed to the connection.
    pub handed_out: bool,
    pub mailbox: Arc<Mailbox>,
}

/// A connection's request for a model.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub tenant: TenantId,
    pub spec: &'a ModelSpec,
    pub on: Option<DeviceId>,
    pub sources: &'a Arc<Sources>,
    pub mailbox: &'a Arc<Mailbox>,
    pub now_ms: u64,
}

/// An admitted model.
#[derive(Debug)]
pub(super) struct Held {
    pub client: ClientId,
    pub device: DeviceUuid,
    /// Chunks with the model's objects, in the order of first use.
    pub chunks: Vec<ChunkId>,
    pub places: Vec<(ObjectId, ObjectPlace)>,
    pub copy_bytes: u64,
    /// The model.
    pub spec: ModelSpec,
    /// Its objects in the store.
    pub objects: Arc<BTreeMap<ObjectId, ObjectRef>>,
}

/// The chunks of a model.
pub(super) struct Chunks<D: DeviceMemory> {
    pub device: Arc<D>,
    /// Each with its length in bytes.
    pub list: Vec<(Arc<D::Chunk>, u64)>,
}

/// All mutable state.
#[derive(Debug)]
pub(super) struct State<D: DeviceMemory> {
    pub manager: Manager,
    pub devices: BTreeMap<DeviceId, Slot<D>>,
    pub(super) leases: BTreeMap<ClientId, Lease>,
    /// Connections that wait for room.
    pub(super) waiting: BTreeMap<u64, (TenantId, Arc<Mailbox>)>,
    pub(super) templates: Templates,
    next: u64,
}

impl<D: DeviceMemory> State<D> {
    pub fn new(
        manager: Manager,
        devices: BTreeMap<DeviceId, Slot<D>>,
        templates: TemplateConfig,
    ) -> Self {
        Self {
            manager,
            devices,
            leases: BTreeMap::new(),
            waiting: BTreeMap::new(),
            templates: Templates::new(templates),
            next: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Rings `mailbox` whenever there may be room, until [`Self::wait_no_longer`].
    pub fn wait(&mut self, tenant: TenantId, mailbox: &Arc<Mailbox>) -> u64 {
        let number = self.number();
        self.waiting.insert(number, (tenant, Arc::clone(mailbox)));
        number
    }

    pub fn wait_no_longer(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Admits a model to a device for a client, which holds it from then on.
    pub fn admit(&mut self, ask: &Ask<'_>, metrics: &Metrics) -> Result<Held, Refusal> {
        let client = ClientId(self.number());
        let admission = self
            .manager
            .admit(ask.tenant, client, ask.spec, ask.on, ask.now_ms)?;
        metrics.admitted.one();
        let name = (admission.device, ask.tenant, ask.spec.key());
        self.templates.uses(&name);
        let leased = self.lease(client, ask, &admission);
        if leased.copy_bytes == 0 {
            metrics.resident.one();
        }
        self.load(ask, admission, metrics);
        Ok(leased)
    }

    fn lease(&mut self, client: ClientId, ask: &Ask<'_>, admission: &Admission) -> Held {
        let copied = admission.copies.iter().map(|copy| copy.object);
        let absent: BTreeSet<_> = copied.chain(admission.awaited.iter().copied()).collect();
        let mut seen = BTreeSet::new();
        let chunks = admission.places.iter().map(|(_, place)| place.chunk);
        let chunks: Vec<_> = chunks.filter(|chunk| seen.insert(*chunk)).collect();
        let (mut left, mut there, mut copy_bytes) = (BTreeMap::new(), Vec::new(), 0);
        for (index, (object, place)) in (0u32..).zip(&admission.places) {
            if absent.contains(object) {
                copy_bytes += place.len;
                left.insert(*object, index);
            } else {
                there.push(index);
            }
        }
        ask.mailbox.leave(|post| {
            post.complete = left.is_empty();
            post.arrived = if left.is_empty() { Vec::new() } else { there };
        });
        let slot = self.devices.get(&admission.device);
        let device = slot.map_or(DeviceUuid([0; 16]), |slot| slot.uuid);
        let lease = Lease {
            tenant: ask.tenant,
            device: admission.device,
            chunks: chunks.clone(),
            left,
            handed_out: false,
            mailbox: Arc::clone(ask.mailbox),
        };
        self.leases.insert(client, lease);
        Held {
            client,
            device,
            chunks,
            places: admission.places.clone(),
            copy_bytes,
            spec: ask.spec.clone(),
            objects: Arc::clone(ask.sources.objects()),
        }
    }

    /// Queues the copies of an admission for the worker.
    fn load(&mut self, ask: &Ask<'_>, admission: Admission, metrics: &Metrics) {
        let device = admission.device;
        self.free(device, admission.freed, metrics);
        if admission.copies.is_empty() {
            return;
        }
        let key = ask.spec.key();
        let slot = self.devices.get_mut(&device);
        let number = slot.map(|slot| slot.transfers.begin(ask.tenant, key, &admission.copies));
        let load = Load {
            number: number.unwrap_or(0),
            tenant: ask.tenant,
            copies: admission.copies,
            sources: Arc::clone(ask.sources),
        };
        self.push(device, Job::Load(load));
    }

    /// Queues chunks for release by the worker, and counts evictions.
    pub(super) fn free(&mut self, device: DeviceId, freed: Freed, metrics: &Metrics) {
        metrics.evicted.add(freed.evicted.len() as u64);
        metrics.dropped_objects.add(freed.dropped.len() as u64);
        if !freed.released.is_empty() {
            self.push(device, Job::Free(freed.released));
        }
    }

    pub(super) fn push(&self, device: DeviceId, job: Job) {
        if let Some(slot) = self.devices.get(&device) {
            // Workers live as long as their senders.
            let _sent = slot.jobs.send(job);
        }
    }

    /// Has the devices' threads drop what they keep for a tenant that has left.
    pub fn leave(&self, tenant: TenantId) {
        for id in self.devices.keys() {
            self.push(*id, Job::Leave(tenant));
        }
    }

    pub fn tell_waiting(&self) {
        for (_, mailbox) in self.waiting.values() {
            mailbox.bell.ring();
        }
    }

    /// Ends a client's hold on its model.
    pub fn end(&mut self, client: ClientId, now_ms: u64, metrics: &Metrics) {
        if self.leases.remove(&client).is_none() {
            return;
        }
        metrics.released.one();
        for (device, freed) in self.manager.disconnect(client, now_ms) {
            self.free(device, freed, metrics);
        }
        self.tell_waiting();
    }

    /// Returns the chunks of a client's model, once all of them exist. `importer` has them from then
    /// on.
    pub fn chunks(&mut self, client: ClientId, importer: &Arc<Importer>) -> Option<Chunks<D>> {
        let lease = self.leases.get_mut(&client)?;
        let slot = self.devices.get(&lease.device)?;
        let physical = |chunk: &ChunkId| {
            let physical = slot.chunks.get(&(lease.tenant, *chunk))?;
            Some((Arc::clone(&physical.chunk), physical.bytes))
        };
        let list = lease.chunks.iter().map(physical).collect::<Option<_>>()?;
        lease.handed_out = true;
        let device = Arc::clone(&slot.device);
        self.hand_to(client, importer);
        Some(Chunks { device, list })
    }

    /// Wakes the clients that wait for chunks of this tenant.
    pub fn created(&self, device: DeviceId, tenant: TenantId) {
        for lease in self.leases.values() {
            if (lease.device, lease.tenant) == (device, tenant) {
                lease.mailbox.bell.ring();
            }
        }
    }

    /// Gives up a load that no client waits for any more. Returns true if it did.
    pub fn give_up_unwanted(
        &mut self,
        device: DeviceId,
        load: &Load,
        now_ms: u64,
        metrics: &Metrics,
    ) -> bool {
        let unwanted = !self.is_wanted(device, load);
        if unwanted {
            metrics.skipped_transfers.one();
            let why = (Reason::COPY_FAILED, String::new());
            self.failed(device, load, &why, now_ms, metrics);
        }
        unwanted
    }

    /// Chunks of a load's objects that do not exist yet, with their lengths in bytes.
    pub fn absent_chunks(&self, device: DeviceId, load: &Load) -> BTreeMap<ChunkId, u64> {
        let slot = self.devices.get(&device);
        let absent = |chunk: &ChunkId| {
            slot.is_some_and(|slot| !slot.chunks.contains_key(&(load.tenant, *chunk)))
        };
        let chunks = load.copies.iter().map(|copy| copy.place.chunk);
        let bytes = |chunk| {
            let bytes = self.manager.chunk_bytes(device, load.tenant, chunk)?;
            Some((chunk, bytes))
        };
        chunks.filter(absent).filter_map(bytes).collect()
    }

    /// The device of a client's model; `None` if it holds none.
    pub fn device_of(&self, client: ClientId) -> Option<DeviceId> {
        self.leases.get(&client).map(|lease| lease.device)
    }

    /// Returns true if a client waits for any of the objects, or a template keeps one of them.
    fn is_wanted(&self, device: DeviceId, load: &Load) -> bool {
        let tenant = load.tenant;
        let kept = |copy: &Copy| self.manager.is_kept(device, tenant, &copy.object);
        if load.copies.iter().any(kept) {
            return true;
        }
        let mut leases = self.leases.values();
        leases.any(|lease| {
            (lease.device, lease.tenant) == (device, load.tenant)
                && load
                    .copies
                    .iter()
                    .any(|copy| lease.left.contains_key(&copy.object))
        })
    }

    /// Records the arrival of an object, and notifies its clients.
    pub fn arrived(
        &mut self,
        device: DeviceId,
        tenant: TenantId,
        object: &ObjectId,
        metrics: &Metrics,
    ) {
        metrics.copied_objects.one();
        for lease in self.leases.values_mut() {
            if (lease.device, lease.tenant) == (device, tenant)
                && let Some(index) = lease.left.remove(object)
            {
                let complete = lease.left.is_empty();
                lease.mailbox.leave(|post| {
                    post.arrived.push(index);
                    post.complete = complete;
                });
            }
        }
        if let Some(slot) = self.devices.get_mut(&device) {
            slot.transfers.arrived(tenant, object);
        }
        if let Some(freed) = self.manager.copied(device, tenant, object) {
            self.free(device, freed, metrics);
        }
    }

    /// Records the end of a load: objects without a holder may leave now.
    pub fn loaded(&mut self, device: DeviceId, load: &Load) {
        self.end_transfer(device, load);
        self.tell_waiting();
    }

    fn end_transfer(&mut self, device: DeviceId, load: &Load) {
        if let Some(slot) = self.devices.get_mut(&device) {
            slot.transfers.end(load.number);
        }
    }

    /// Length of the objects of a client's model that have not arrived, in bytes.
    pub fn bytes_left(&self, held: &Held) -> u64 {
        let left = self
            .leases
            .get(&held.client)
            .map(|lease| lease.left.values());
        let len = |index: &u32| held.places.get(*index as usize).map(|(_, place)| place.len);
        left.into_iter().flatten().filter_map(len).sum()
    }

    /// Removes an object with other bytes than its own, and notifies the clients of its models.
    pub fn damaged(&mut self, device: DeviceId, damaged: Damaged, now_ms: u64, metrics: &Metrics) {
        let Damaged { tenant, object } = damaged;
        let failed = self.manager.damaged(device, tenant, object, now_ms);
        metrics.damaged_objects.one();
        let clients = failed.clients.len();
        tracing::error!(%device, %tenant, %object, clients, "an object on a device has other bytes than its name says: a process wrote to it, or the memory is faulty; it is dropped there, and clients of its models are told to load them anew");
        let why = format!(
            "object {object} has other bytes on the device than its name says; load the model anew"
        );
        self.fail_clients(failed, device, &(Reason::DAMAGED, why), metrics);
    }

    /// Removes the objects of a failed load, and notifies the clients that wait for them.
    pub fn failed(
        &mut self,
        device: DeviceId,
        load: &Load,
        why: &(Reason, String),
        now_ms: u64,
        metrics: &Metrics,
    ) {
        self.end_transfer(device, load);
        let objects: Vec<_> = load.copies.iter().map(|copy| copy.object).collect();
        let failed = self.manager.failed(device, load.tenant, &objects, now_ms);
        self.fail_clients(failed, device, why, metrics);
    }

    fn fail_clients(
        &mut self,
        failed: Failed,
        device: DeviceId,
        why: &(Reason, String),
        metrics: &Metrics,
    ) {
        for (client, _) in failed.clients {
            if let Some(lease) = self.leases.remove(&client) {
                let why = why.clone();
                lease.mailbox.leave(|post| post.failed = Some(why));
            }
        }
        self.free(device, failed.freed, metrics);
        self.tell_waiting();
    }
}
