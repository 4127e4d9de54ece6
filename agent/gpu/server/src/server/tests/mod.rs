//! Jobs of a worker, one after the other, without its thread.

use std::collections::{BTreeMap, BTreeSet};

use tempfile::TempDir;
use tetris_store_layout::{Access, CreateOptions, ObjectRef};

use super::importer::Importer;
use super::mailbox::Mailbox;
use super::pool::Pool;
use super::source::Sources;
use super::state::{Ask, Held};
use super::*;
use crate::arena::ArenaConfig;
use crate::copy::ExecutorConfig;
use crate::residency::{self, ModelSpec, Part};
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_protocol::Reason;

mod damage;
mod pins;
mod pressure;

const DEVICE: DeviceId = DeviceId(3);
const TENANT: TenantId = TenantId(0);
/// Room for two of the models below, of 8 MiB each.
const PIN_LIMIT: u64 = 17 << 20;
const GROUP_BYTES: u64 = 64 << 10;

struct Fixture {
    _directory: TempDir,
    store: Arc<Store>,
    pool: Arc<Pool>,
    /// See [`Maker::patience`].
    patience: Duration,
    device: HostDevice,
    core: Arc<Core<HostDevice>>,
    jobs: Option<Receiver<Job>>,
}

/// A client of this process.
fn importer() -> Arc<Importer> {
    Importer::new(None)
}

#[derive(Debug)]
struct Client {
    held: Held,
    mailbox: Arc<Mailbox>,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(directory.path(), &CreateOptions::default());
        let store = Arc::new(store.unwrap());
        let arena = ArenaConfig::try_new(2 << 20, 4 << 20, 512, 12).unwrap();
        let residency = residency::Config {
            arena,
            ..residency::Config::default()
        };
        let mut manager = Manager::new(residency);
        manager.set_capacity(DEVICE, 8 << 20);
        manager.set_limit(DEVICE, 8 << 20);
        let device = HostDevice::new(8 << 20);
        let (sender, receiver) = channel();
        let slot = Slot {
            device: Arc::new(device.clone()),
            uuid: tetris_gpu_device::DeviceUuid([9; 16]),
            name: String::new(),
            mode: tetris_gpu_device::DeviceMode::Shared,
            total_bytes: 8 << 20,
            limit_bytes: 8 << 20,
            making: None,
            making_bytes: 0,
            group_bytes: GROUP_BYTES,
            registrar: Arc::new(Registrar::new(
                Arc::new(device.clone()),
                PIN_LIMIT,
                GROUP_BYTES,
            )),
            lost: None,
            checking: None,
            chunks: BTreeMap::new(),
            lingering: BTreeMap::new(),
            spares: Spares::new(0, 4 << 20),
            links: DeviceLinks::default(),
            transfers: Transfers::default(),
            jobs: sender,
        };
        let state = State::new(
            manager,
            BTreeMap::from([(DEVICE, slot)]),
            TemplateConfig::default(),
        );
        Self {
            _directory: directory,
            pool: Arc::new(Pool::new(
                TENANT,
                Arc::clone(&store),
                BTreeSet::new(),
                &Arc::new(object_limit::ObjectLimit::new(1 << 10)),
            )),
            store,
            device,
            core: Arc::new(Core::new(&ServerConfig::default(), state)),
            jobs: Some(receiver),
            patience: Duration::ZERO,
        }
    }

    fn registrar(&self) -> Arc<Registrar<HostDevice>> {
        Arc::clone(&self.core.state().devices[&DEVICE].registrar)
    }

    fn object(&self, name: u8, kib: usize) -> ObjectRef {
        let bytes = vec![name; kib << 10];
        let published = self.store.publish(&bytes, Access::ReadOnly).unwrap();
        published.object
    }

    fn sources(&self, objects: &[ObjectRef]) -> Sources {
        let by_id = objects.iter().map(|object| (object.id, *object));
        Sources::new(Arc::clone(&self.pool), Arc::new(by_id.collect()))
    }

    fn admit(&self, objects: &[ObjectRef]) -> Client {
        self.try_admit(objects).unwrap()
    }

    fn try_admit(&self, objects: &[ObjectRef]) -> Result<Client, residency::Refusal> {
        let part = |object: &ObjectRef| Part {
            object: object.id,
            len: object.len,
        };
        let parts: Vec<_> = objects.iter().map(part).collect();
        let sources = self.sources(objects);
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let ask = Ask {
            tenant: TENANT,
            spec: &ModelSpec::try_new(&parts, &[]).unwrap(),
            on: None,
            sources: &Arc::new(sources),
            mailbox: &mailbox,
            now_ms: 0,
        };
        let leased = self.core.admit(&ask)?;
        Ok(Client {
            held: leased,
            mailbox,
        })
    }

    /// Returns the worker and its jobs, whose chunks exist; it ends when no one has the sender.
    fn worker(&mut self) -> (Worker<HostDevice>, Sender<Job>, Receiver<Job>) {
        let (sender, copies) = self.make();
        let worker = Worker {
            core: Arc::clone(&self.core),
            id: DEVICE,
            device: Arc::new(self.device.clone()),
            executor: Executor::with(self.registrar(), ExecutorConfig::default()),
            group_bytes: GROUP_BYTES,
            checker: Checker::new(0),
            across: None,
        };
        (worker, sender, copies)
    }

    /// Runs all queued jobs of the thread that makes chunks. Returns the way on, with those that it
    /// handed on.
    fn make(&mut self) -> (Sender<Job>, Receiver<Job>) {
        let (sender, receiver) = channel();
        let slot_sender = |sender| {
            let mut state = self.core.state();
            let slot = state.devices.get_mut(&DEVICE).unwrap();
            std::mem::replace(&mut slot.jobs, sender)
        };
        // Drops the old sender, so that the thread ends after the queued jobs; new ones wait for
        // the next call.
        drop(slot_sender(sender));
        let maker = Maker {
            core: Arc::clone(&self.core),
            id: DEVICE,
            device: Arc::new(self.device.clone()),
            patience: self.patience,
        };
        let (next, copies) = channel();
        maker.run(&self.jobs.replace(receiver).unwrap(), &next);
        (next, copies)
    }

    /// Runs all queued jobs.
    fn work(mut self) -> Self {
        let (worker, sender, jobs) = self.worker();
        drop(sender);
        worker.run(&jobs);
        self
    }
}

#[test]
fn a_check_that_a_device_has_not_begun_is_in_its_report() {
    let fixture = Fixture::new();
    let unanswered = |core: &Core<HostDevice>| {
        let state = core.state();
        let report = state.device_report(DEVICE, &state.devices[&DEVICE]);
        report.unanswered_ms
    };
    assert_eq!(unanswered(&fixture.core), None);
    fixture.core.state().check_devices();
    assert!(unanswered(&fixture.core).is_some());
    let fixture = fixture.work();
    assert_eq!(unanswered(&fixture.core), None);
}

#[test]
fn what_nobody_waits_for_is_not_copied() {
    let fixture = Fixture::new();
    let client = fixture.admit(&[fixture.object(1, 3000)]);
    fixture.core.end(client.held.client);
    let fixture = fixture.work();
    let counters = fixture.core.metrics.counters();
    assert_eq!(counters.skipped_transfers, 1);
    assert_eq!((counters.copied_objects, counters.chunks_created), (0, 0));
    let usage = fixture.core.state().manager.usage(DEVICE).unwrap();
    assert_eq!((usage.models, usage.created_bytes), (0, 0));
}

#[test]
fn what_another_client_waits_for_is_copied_once() {
    let fixture = Fixture::new();
    let objects = [fixture.object(1, 1000), fixture.object(2, 1000)];
    let (gone, stays) = (fixture.admit(&objects), fixture.admit(&objects));
    fixture.core.end(gone.held.client);
    let fixture = fixture.work();
    let counters = fixture.core.metrics.counters();
    assert_eq!(
        (counters.skipped_transfers, counters.copied_objects),
        (0, 2)
    );
    assert!(stays.mailbox.take().complete);
    assert!(
        fixture
            .core
            .state()
            .chunks(stays.held.client, &importer())
            .is_some()
    );
}

/// A small object is placed in the hole of a chunk that the load before it should have created.
#[test]
fn a_load_makes_the_chunks_of_one_that_was_given_up() {
    let fixture = Fixture::new();
    let first = fixture.admit(&[fixture.object(1, 1500)]);
    let second = fixture.admit(&[fixture.object(2, 100)]);
    assert_eq!(first.held.chunks, second.held.chunks);
    fixture.core.end(first.held.client);
    let fixture = fixture.work();
    let counters = fixture.core.metrics.counters();
    assert_eq!(
        (counters.skipped_transfers, counters.copied_objects),
        (1, 1)
    );
    assert!(second.mailbox.take().complete);
}

#[test]
fn who_shares_objects_with_a_failed_load_is_told_too() {
    let fixture = Fixture::new();
    let (base, own) = (fixture.object(1, 1000), fixture.object(2, 1000));
    let first = fixture.admit(&[base]);
    let other = fixture.admit(&[base, own]);
    fixture.device.set_faults(Faults {
        creates: 0,
        ..Faults::default()
    });
    let fixture = fixture.work();
    for client in [&first, &other] {
        let failed = client.mailbox.take().failed.unwrap();
        assert_eq!(failed.0, Reason::DEVICE_FULL);
        assert!(
            fixture
                .core
                .state()
                .chunks(client.held.client, &importer())
                .is_none()
        );
    }
    let fixture = fixture.work();
    let usage = fixture.core.state().manager.usage(DEVICE).unwrap();
    assert_eq!((usage.models, usage.created_bytes), (0, 0));
}

#[test]
fn chunks_of_what_was_evicted_are_released_before_new_ones_are_made() {
    let fixture = Fixture::new();
    let first = fixture.admit(&[fixture.object(1, 8000)]);
    let fixture = fixture.work();
    fixture.core.end(first.held.client);
    let second = fixture.admit(&[fixture.object(2, 8000)]);
    let fixture = fixture.work();
    assert!(
        second.mailbox.take().complete,
        "the device had room for one"
    );
    assert_eq!(fixture.core.metrics.counters().evicted, 1);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    assert!(Limits::default().check().is_ok());
    let zero = Duration::ZERO;
    let broken: [fn(&mut Limits, Duration); 5] = [
        |limits, _| limits.connections = 0,
        |limits, _| limits.connections_of_user = 1 << 20,
        |limits, zero| limits.message_timeout = zero,
        |limits, zero| limits.longest_wait = zero,
        |limits, zero| limits.keepalive = zero,
    ];
    for break_it in broken {
        let mut limits = Limits::default();
        break_it(&mut limits, zero);
        assert!(matches!(limits.check(), Err(ServerError::Limits { .. })));
    }
}

#[test]
fn a_server_takes_no_more_than_is_free_when_it_starts() {
    let device = Arc::new(HostDevice::new(8 << 20));
    // Memory that clients of an earlier server still have.
    let old = device.create(6 << 20).unwrap();
    let served = |id| ServedDevice {
        id,
        device: Arc::clone(&device),
        capacity_bytes: 7 << 20,
    };
    let server = Server::start(vec![served(DEVICE)], &ServerConfig::default()).unwrap();
    assert_eq!(server.usage(DEVICE).unwrap().capacity_bytes, 2 << 20);
    drop((server, old));
    let server = Server::start(vec![served(DEVICE)], &ServerConfig::default()).unwrap();
    assert_eq!(server.usage(DEVICE).unwrap().capacity_bytes, 7 << 20);
    let twice = vec![served(DEVICE), served(DEVICE)];
    let twice = Server::start(twice, &ServerConfig::default());
    assert!(matches!(twice, Err(ServerError::Devices { .. })));
}

#[test]
fn a_lost_device_fails_who_waits_for_it_and_leaves_alone_who_has_everything() {
    let fixture = Fixture::new();
    let object = fixture.object(1, 1000);
    let has_all = fixture.admit(&[object]);
    let fixture = fixture.work();
    assert!(
        fixture
            .core
            .state()
            .chunks(has_all.held.client, &importer())
            .is_some()
    );
    let resident = fixture.admit(&[object]);
    let waits = fixture.admit(&[fixture.object(2, 1000)]);
    fixture.device.lose();
    let fixture = fixture.work();
    assert!(waits.mailbox.take().failed.is_some());
    // The model was resident, but its chunks can no longer be passed to a client.
    let (_, why) = resident.mailbox.take().failed.unwrap();
    assert!(why.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{why}");
    assert!(has_all.mailbox.take().failed.is_none());
    let state = fixture.core.state();
    let why = state.lost(None).unwrap();
    assert!(why.contains("restart the daemon"), "{why}");
    assert_eq!(state.lost(Some(DEVICE)), Some(why));
    assert_eq!(state.leases_on(DEVICE), 1);
    assert!(state.manager.usage(DEVICE).is_none());
    drop(state);
    fixture.core.end(has_all.held.client);
    assert_eq!(fixture.core.state().leases_on(DEVICE), 0);
}

#[test]
fn a_device_that_works_is_not_lost_by_a_failed_copy() {
    let fixture = Fixture::new();
    let client = fixture.admit(&[fixture.object(1, 1000)]);
    fixture.device.set_faults(Faults {
        copies: 0,
        ..Faults::default()
    });
    let fixture = fixture.work();
    assert!(client.mailbox.take().failed.is_some());
    assert_eq!(fixture.core.state().lost(None), None);
    fixture.device.set_faults(Faults::default());
    let client = fixture.admit(&[fixture.object(1, 1000)]);
    let fixture = fixture.work();
    assert!(client.mailbox.take().complete);
    fixture.core.state().check_devices();
    assert_eq!(fixture.work().core.state().lost(None), None);
}
