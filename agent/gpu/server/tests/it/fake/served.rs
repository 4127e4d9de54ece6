//! A server and its clients, with a failing driver.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tetris_gpu_client::{Acquired, Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_device::{DeviceMemory, MemoryError};
use tetris_gpu_protocol::Reason;
use tetris_gpu_server::residency::{TenantId, Usage};
use tetris_gpu_server::{
    Counters, Limits, Report, ServedDevice, Server, ServerConfig, ServerError,
};
use tetris_store_layout::{CreateOptions, ObjectRef, Reclaimed, Store};

use crate::fake_driver::FakeDriver;
use crate::mirror::process::{Process, tell, variable, wait};
use crate::mirror::{self, DEVICE, LONG, MIB, content, eventually};

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub const KIB: usize = 3000;
pub const SOCKET: &str = "TETRIS_MIRROR_SOCKET";
pub const OBJECTS: &str = "TETRIS_MIRROR_OBJECTS";

/// A server in this process, with one model in its store.
pub struct Served<D: DeviceMemory + 'static> {
    /// Removed on drop; absent if another process created the folder.
    _directory: Option<TempDir>,
    store: Arc<Store>,
    device: D,
    pub server: Server<D>,
    pub socket: PathBuf,
    pub model: Vec<ObjectRef>,
}

impl<D: DeviceMemory + Clone + 'static> Served<D> {
    pub fn new(device: D) -> Self {
        Self::with(device, &mirror::config(Limits::default()))
    }

    pub fn with(device: D, config: &ServerConfig) -> Self {
        Self::with_capacity(device, config, u64::MAX)
    }

    /// A server that uses at most `capacity_bytes` of its device.
    pub fn with_capacity(device: D, config: &ServerConfig, capacity_bytes: u64) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let served = Self::configured(device, directory.path(), config, capacity_bytes).unwrap();
        Self {
            _directory: Some(directory),
            ..served
        }
    }

    /// A server of the store in this folder, which an earlier server may have created.
    pub fn in_folder(device: D, folder: &Path) -> Result<Self, ServerError> {
        let config = mirror::config(Limits::default());
        Self::configured(device, folder, &config, u64::MAX)
    }

    fn configured(
        device: D,
        folder: &Path,
        config: &ServerConfig,
        capacity_bytes: u64,
    ) -> Result<Self, ServerError> {
        let root = folder.join("store");
        let store = if root.exists() {
            Store::open(root).unwrap()
        } else {
            Store::create(root, &CreateOptions::default()).unwrap()
        };
        let store = Arc::new(store);
        let served = ServedDevice {
            id: DEVICE,
            device: Arc::new(device.clone()),
            capacity_bytes,
        };
        let server = Server::start(vec![served], config)?;
        let socket = folder.join("gpu");
        let tenant = TenantId(0);
        server
            .serve(tenant, Arc::clone(&store), None, &socket)
            .unwrap();
        let model = mirror::publish(&store, &NAMES, KIB);
        Ok(Self {
            _directory: None,
            store,
            device,
            server,
            socket,
            model,
        })
    }

    /// Acquires the model in this process and waits for it.
    pub fn load(&self) -> Result<Acquired<D>, ClientError> {
        let model = acquire(&self.socket, &self.model, self.device.clone())?;
        model.wait_all(LONG)?;
        Ok(model)
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Publishes another model of the same size.
    pub fn publish(&self, names: &[&str]) -> Vec<ObjectRef> {
        mirror::publish(&self.store, names, KIB)
    }

    /// Acquires a model in this process, waiting for room, and waits for it.
    pub fn load_within(
        &self,
        objects: &[ObjectRef],
        wait: Duration,
    ) -> Result<Acquired<D>, ClientError> {
        let client = Client::connect(&self.socket, D::KIND, LONG)?;
        let wanted = Wanted {
            wait,
            ..Wanted::new(WantedModel::Objects(objects.to_vec()))
        };
        let device = Arc::new(self.device.clone());
        let model = client.acquire(device, &wanted, &mut |_| {})?;
        model.wait_all(LONG)?;
        Ok(model)
    }

    pub fn usage(&self) -> Usage {
        self.server.usage(DEVICE).unwrap()
    }

    pub fn report(&self) -> Report {
        self.server.report()
    }

    pub fn counters(&self) -> Counters {
        self.server.counters()
    }

    /// Counters once a load is counted. That can be after its client has every object.
    pub fn counters_of_a_load(&self) -> Counters {
        self.counters_of(1)
    }

    fn counters_of(&self, loads: u64) -> Counters {
        let copied = |counters: Counters| counters.direct_bytes + counters.staged_bytes;
        eventually("it is counted", || {
            copied(self.counters()) == loads * total()
        });
        self.counters()
    }

    /// Loads the model twice, the second time after another one has evicted it and the driver has
    /// registered its pages or refused to. Returns the counters of these three loads.
    pub fn load_again(&self) -> Counters {
        let others = mirror::publish(&self.store, &["e", "f", "g", "h"], KIB);
        let model = self.load().unwrap();
        check(&model);
        // A drop releases it too, but returns before the server knows.
        model.release().unwrap();
        eventually("its pages are registered or refused", || {
            let device = &self.server.report().devices[0];
            device.pinned_bytes == total() || device.unregistered.is_some()
        });
        let other = acquire(&self.socket, &others, self.device.clone()).unwrap();
        other.wait_all(LONG).unwrap();
        other.release().unwrap();
        check(&self.load().unwrap());
        self.counters_of(3)
    }

    /// The model as text, for another process.
    pub fn objects(&self) -> String {
        let objects = self.model.iter();
        let objects: Vec<_> = objects
            .map(|object| format!("{} {}", object.file_name(), object.len))
            .collect();
        objects.join(",")
    }

    pub fn client(&self, test: &str, more: &[(&'static str, String)]) -> Process {
        let mut environment = vec![
            (SOCKET, self.socket.display().to_string()),
            (OBJECTS, self.objects()),
        ];
        environment.extend(more.iter().cloned());
        Process::start(test, &environment)
    }
}

pub fn acquire<D: DeviceMemory>(
    socket: &Path,
    objects: &[ObjectRef],
    device: D,
) -> Result<Acquired<D>, ClientError> {
    acquire_within(socket, objects, device, Duration::ZERO)
}

pub fn acquire_within<D: DeviceMemory>(
    socket: &Path,
    objects: &[ObjectRef],
    device: D,
    wait: Duration,
) -> Result<Acquired<D>, ClientError> {
    let client = Client::connect(socket, D::KIND, LONG)?;
    let wanted = Wanted {
        wait,
        ..Wanted::new(WantedModel::Objects(objects.to_vec()))
    };
    client.acquire(Arc::new(device), &wanted, &mut |_| {})
}

pub fn check<D: DeviceMemory>(model: &Acquired<D>) {
    for (object, name) in model.objects().iter().zip(NAMES) {
        assert!(model.read(&object.id, LONG).unwrap() == content(name, KIB));
    }
}

pub fn total() -> u64 {
    (NAMES.len() * KIB * 1024) as u64
}

/// Socket and model of the server that started this process.
pub fn told() -> (PathBuf, Vec<ObjectRef>) {
    let parse = |entry: &str| {
        let (name, len) = entry.split_once(' ').unwrap();
        let (id, crc) = name.split_once('-').unwrap();
        ObjectRef {
            id: id.parse().unwrap(),
            crc: u32::from_str_radix(crc, 16).unwrap(),
            len: len.parse().unwrap(),
        }
    };
    let objects = variable(OBJECTS).split(',').map(parse).collect();
    (PathBuf::from(variable(SOCKET)), objects)
}

/// Acquires the model, reports the result, and waits.
fn client<D: DeviceMemory>(device: D) {
    let (socket, objects) = told();
    let model = acquire(&socket, &objects, device);
    // Chunks can be mapped after it has returned.
    let arrived = |model: Acquired<D>| model.wait_all(LONG).map(|()| model);
    match model.and_then(arrived) {
        Ok(model) => {
            check(&model);
            tell("as it should be");
            wait();
            check(&model);
            tell("as it was");
        }
        Err(error) => tell(&format!("{error}")),
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_by_descriptor() {
    client(VmmDevice::open(0).unwrap());
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_by_handle() {
    client(IpcDevice::open(0).unwrap());
}

/// One client cannot import, which does not affect another; a third one is killed.
fn imports<D: DeviceMemory + Clone + 'static>(device: D, test: &str, import: &str) {
    let free = device.info().unwrap().free_bytes;
    let served = Served::new(device);
    let fail = ("FAKE_CUDA_FAIL", format!("{import}:800:2"));
    let mut refused = served.client(test, &[fail]);
    let said = refused.hear();
    assert!(said.starts_with("cannot import device memory"), "{said}");
    assert!(said.contains("CUDA_ERROR_NOT_PERMITTED (800)"), "{said}");
    let mut killed = served.client(test, &[]);
    let mut stays = served.client(test, &[]);
    assert_eq!(killed.hear(), "as it should be");
    assert_eq!(stays.hear(), "as it should be");
    killed.kill();
    eventually("one client is left", || served.server.connections() == 1);
    let usage = served.server.usage(DEVICE).unwrap();
    assert_eq!((usage.held_bytes, usage.held_models), (total(), 1));
    stays.go_on();
    assert_eq!(stays.hear(), "as it was");
    drop(stays);
    let Served { device, server, .. } = served;
    drop(server);
    eventually("all memory is free again", || {
        device.info().unwrap().free_bytes == free
    });
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_importers() {
    let descriptors = VmmDevice::open(0).unwrap();
    let import = "cuMemImportFromShareableHandle";
    imports(descriptors, "fake::served::client_by_descriptor", import);
    let handles = IpcDevice::open(0).unwrap();
    imports(
        handles,
        "fake::served::client_by_handle",
        "cuIpcOpenMemHandle_v2",
    );
}

#[test]
fn a_client_that_cannot_import_or_is_killed_harms_nobody() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::served::server_of_importers");
        driver.check();
    }
}

/// Loads the model twice and reports how its bytes were copied.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_copies() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let counters = served.load_again();
    println!(
        "\ndirect {} staged {} because {:?}",
        counters.direct_bytes,
        counters.staged_bytes,
        served.server.report().devices[0].unregistered
    );
}

#[test]
fn first_loads_are_staged_and_later_ones_come_from_registered_pages() {
    for driver in FakeDriver::each() {
        let driver = driver.with("READ_ONLY_REGISTER", 1).with_room(24);
        let said = driver.run_one("fake::served::server_of_copies");
        let expected = format!("direct {} staged {} because None", total(), 2 * total());
        assert!(said.contains(&expected), "expected {expected}: {said}");
        driver.check();
    }
}

#[test]
fn what_cannot_be_registered_is_staged() {
    // The limit of locked memory is 0 for now; the device supports no registration.
    for (code, reason) in [(2, "CUDA_ERROR_OUT_OF_MEMORY"), (801, "not supported")] {
        let driver = FakeDriver::unkind()
            .with("READ_ONLY_REGISTER", 1)
            .with_room(24)
            .failing(&format!("cuMemHostRegister_v2:{code}"));
        let said = driver.run_one("fake::served::server_of_copies");
        let expected = format!("direct 0 staged {} because Some", 3 * total());
        assert!(said.contains(&expected), "expected {expected}: {said}");
        assert!(said.contains(reason), "expected {reason}: {said}");
        driver.check();
    }
}

#[test]
fn what_was_refused_for_a_moment_is_registered_later() {
    let driver = FakeDriver::new()
        .with("READ_ONLY_REGISTER", 1)
        .with_room(24)
        .failing("cuMemHostRegister_v2:2:1:2");
    driver.run_one("fake::served::server_of_pages_that_are_refused_for_a_moment");
    driver.check();
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_pages_that_are_refused_for_a_moment() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    check(&served.load().unwrap());
    eventually("its pages are registered", || {
        let device = &served.server.report().devices[0];
        device.pinned_bytes == total() && device.unregistered.is_none()
    });
}

/// Two models take turns on a device with room for one.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_model_that_comes_back() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let others = mirror::publish(&served.store, &["e", "f", "g", "h"], KIB);
    let pinned = || served.server.report().devices[0].pinned_bytes;
    for _ in 0..3 {
        let model = served.load().unwrap();
        check(&model);
        model.release().unwrap();
        eventually("its pages are registered", || pinned() >= total());
        let other = acquire(&served.socket, &others, served.device.clone()).unwrap();
        other.wait_all(LONG).unwrap();
        other.release().unwrap();
        eventually("all pages are registered", || pinned() == 2 * total());
    }
    eventually("all is counted", || {
        let counters = served.counters();
        (counters.registrations, counters.reused_registrations) == (8, 16)
    });
    assert!(served.counters().evicted >= 5);
    assert_eq!(served.server.unpin(TenantId(0)), 2 * total());
    let reclaimed = served.store.reclaim(&served.model[0]).unwrap();
    assert!(matches!(reclaimed, Reclaimed::Freed { .. }));
}

#[test]
fn what_comes_back_to_a_device_is_registered_once() {
    for driver in FakeDriver::each() {
        let driver = driver.with("READ_ONLY_REGISTER", 1).with_room(24);
        driver.run_one("fake::served::server_of_a_model_that_comes_back");
        driver.check();
    }
}

/// Another program allocates the memory after the server has counted it.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_full_device() {
    let device = VmmDevice::open(0).unwrap();
    let served = Served::new(device.clone());
    let free = device.info().unwrap().free_bytes;
    let another = device.create(free - 4 * MIB).unwrap();
    let error = served.load().unwrap_err();
    match &error {
        ClientError::Failed { reason, text } => {
            assert_eq!(*reason, Reason::DEVICE_FULL, "{text}");
            assert!(text.contains("device memory is full"), "{text}");
        }
        other => panic!("expected a failure, found {other:?}"),
    }
    drop(another);
    check(&served.load().unwrap());
    // A model larger than the device is refused at once.
    let more: Vec<String> = (0..24).map(|number| format!("more {number}")).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let large = mirror::publish(&served.store, &more, KIB);
    let refused = acquire(&served.socket, &large, device).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(_)), "{refused:?}");
    check(&served.load().unwrap());
}

#[test]
fn a_device_that_is_full_is_told_and_used_again() {
    for driver in FakeDriver::each() {
        let driver = driver.with_room(64);
        driver.run_one("fake::served::server_of_a_full_device");
        driver.check();
    }
}

/// An illegal access ends the use of the device by this process: every load fails with a reason,
/// and none hangs.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_that_cannot_go_on() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    for _ in 0..2 {
        let error = served.load().unwrap_err();
        assert!(!matches!(error, ClientError::TimedOut { .. }), "{error}");
        println!("{error}");
    }
    let error = served.device.info().unwrap_err();
    assert!(
        matches!(error, MemoryError::Driver { code: 700, .. }),
        "{error}"
    );
    assert!(served.counters().failed_transfers > 0);
}

#[test]
fn an_illegal_access_fails_every_load_and_hangs_none() {
    for driver in FakeDriver::each() {
        let driver = driver.with("FAULT_AT_COPY", 20);
        let said = driver.run_one("fake::served::server_that_cannot_go_on");
        assert!(said.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{said}");
        driver.check();
    }
}
