//! A store, a server on the simulated device, and its clients.
#![allow(
    clippy::print_stdout,
    reason = "processes of a test report their progress to each other"
)]

pub mod process;
pub mod raw;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tetris_gpu_client::{Acquired, Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_device::{DeviceMemory, MemoryKind};
use tetris_gpu_protocol::Reason;
use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::residency::{self, DeviceId, TenantId, Usage};
use tetris_gpu_server::{Limits, ServedDevice, Server, ServerConfig};
use tetris_store_layout::{Access, CreateOptions, Manifest, ManifestKind, ManifestObject};
use tetris_store_layout::{Digest, ManifestId, ObjectKind, ObjectRef, Store};

pub const MIB: u64 = 1 << 20;
/// Far longer than any operation takes: a timeout shows a fault.
pub const LONG: Duration = Duration::from_secs(50);
pub const DEVICE: DeviceId = DeviceId(0);

/// A store with a server.
pub struct Mirror {
    pub directory: TempDir,
    pub store: Arc<Store>,
    pub device: HostDevice,
    pub server: Server<HostDevice>,
    pub socket: PathBuf,
}

/// Small chunks and groups, so that models of some MiB have several.
pub fn config(limits: Limits) -> ServerConfig {
    let arena = ArenaConfig::try_new(2 * MIB, 4 * MIB, 512, 12).unwrap();
    let light_bytes = residency::Config::default().light_bytes;
    ServerConfig {
        residency: residency::Config { arena, light_bytes },
        executor: ExecutorConfig::try_new(2, 4, 64 << 10, 64 * MIB).unwrap(),
        limits,
        memory_patience: Duration::from_millis(200),
        ..ServerConfig::default()
    }
}

impl Mirror {
    /// Starts a server with a device of `capacity_mib` MiB.
    pub fn new(capacity_mib: u64) -> Self {
        Self::with(capacity_mib, Limits::default(), None)
    }

    pub fn with(capacity_mib: u64, limits: Limits, quota_mib: Option<u64>) -> Self {
        Self::configured(capacity_mib, &config(limits), quota_mib)
    }

    pub fn configured(capacity_mib: u64, config: &ServerConfig, quota_mib: Option<u64>) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = directory.path().join("store");
        let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
        let device = HostDevice::new(capacity_mib * MIB);
        let served = ServedDevice {
            id: DEVICE,
            device: Arc::new(device.clone()),
            capacity_bytes: u64::MAX,
        };
        let server = Server::start(vec![served], config).unwrap();
        let socket = directory.path().join("gpu");
        let quota = quota_mib.map(|mib| mib * MIB);
        let tenant = TenantId(0);
        server
            .serve(tenant, Arc::clone(&store), quota, &socket)
            .unwrap();
        Self {
            directory,
            store,
            device,
            server,
            socket,
        }
    }

    /// Publishes a model of objects with these names, each of `kib` KiB.
    pub fn model(&self, names: &[&str], kib: usize) -> Vec<ObjectRef> {
        publish(&self.store, names, kib)
    }

    pub fn usage(&self) -> Usage {
        self.server.usage(DEVICE).unwrap()
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.socket, MemoryKind::Host, LONG).unwrap()
    }

    /// Acquires with a separate device, like another process.
    pub fn acquire(&self, objects: &[ObjectRef]) -> Result<Acquired<HostDevice>, ClientError> {
        self.acquire_within(objects, Duration::ZERO)
    }

    pub fn acquire_within(
        &self,
        objects: &[ObjectRef],
        wait: Duration,
    ) -> Result<Acquired<HostDevice>, ClientError> {
        let wanted = Wanted {
            wait,
            ..Wanted::new(WantedModel::Objects(objects.to_vec()))
        };
        let device = Arc::new(HostDevice::new(0));
        self.connect().acquire(device, &wanted, &mut |_| {})
    }

    /// Injects faults into the device.
    pub fn faults(&self, faults: Faults) {
        self.device.set_faults(faults);
    }
}

/// Deterministic content of an object, `kib` KiB long.
pub fn content(name: &str, kib: usize) -> Vec<u8> {
    let seed = Digest::of(name.as_bytes());
    let block: Vec<u8> = (0..1024u32)
        .map(|at| seed.0[at as usize % 32] ^ ((at * 7) >> 3) as u8)
        .collect();
    block.repeat(kib)
}

pub fn publish(store: &Store, names: &[&str], kib: usize) -> Vec<ObjectRef> {
    let publish = |name: &&str| {
        let bytes = content(name, kib);
        store.publish(&bytes, Access::ReadOnly).unwrap().object
    };
    names.iter().map(publish).collect()
}

/// Publishes a manifest of these objects.
pub fn manifest(store: &Store, objects: &[ObjectRef]) -> ManifestId {
    let entry = |object: &ObjectRef| ManifestObject {
        object: *object,
        kind: ObjectKind::File,
    };
    let manifest = Manifest {
        kind: ManifestKind::File,
        source_size: objects.iter().map(|object| object.len).sum(),
        data_start: 0,
        header_digest: Digest::of(b""),
        metadata: Vec::new(),
        objects: objects.iter().map(entry).collect(),
        tensors: Vec::new(),
    };
    store.publish_manifest(&manifest).unwrap()
}

/// Checks all bytes of a model against the contents of the names.
pub fn check(model: &Acquired<HostDevice>, objects: &[ObjectRef], names: &[&str], kib: usize) {
    for (object, name) in objects.iter().zip(names) {
        let read_back = model.read(&object.id, LONG).unwrap();
        assert!(read_back == content(name, kib), "{name}");
    }
    model.wait_all(LONG).unwrap();
}

pub fn refused(result: Result<Acquired<HostDevice>, ClientError>) -> (Reason, u64, u32) {
    match result {
        Err(ClientError::Refused(why)) => (why.reason, why.missing_bytes, why.missing_objects),
        other => panic!("expected a refusal, found {other:?}"),
    }
}

pub fn free_bytes(device: &HostDevice) -> u64 {
    device.info().unwrap().free_bytes
}

/// Gives the reason a test shows nothing here.
pub fn skipped(why: &str) {
    println!("SKIPPED: {why}");
}

/// Polls until a condition holds.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "expected that {what}");
        std::thread::yield_now();
    }
}
