//! Conditions on sessions with the GPU mirror's socket, over the simulated device. Shared by the
//! fuzz target and the tests of the mirror.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceMemory, MemoryKind};
use tetris_gpu_protocol::{Acquire, Describe, ModelNamed, PROTOCOL, Reply, Request};
use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::residency::{self, DeviceId, ModelKey, TenantId};
use tetris_gpu_server::{Limits, ServedDevice, Server, ServerConfig};
use tetris_store_layout::{
    Access, CreateOptions, Digest, Manifest, ManifestId, ManifestKind, ManifestObject, ObjectKind,
    ObjectRef, Store,
};

use crate::session::{Script, eventually, open_descriptors, play};

/// Places of messages in the script.
pub const ACQUIRE_TWO: u8 = 0;
pub const TWO_OBJECTS: u8 = 1;
pub const ACQUIRE_MANIFEST: u8 = 2;
pub const ACQUIRE_IN_ORDER: u8 = 3;
pub const ORDER: u8 = 4;
pub const TAKEN: u8 = 5;
pub const RELEASE: u8 = 6;
pub const LIST_DEVICES: u8 = 7;
pub const STATUS: u8 = 8;
pub const ACQUIRE_ALL_AND_WAIT: u8 = 9;
pub const ALL_OBJECTS: u8 = 10;
pub const ACQUIRE_UNKNOWN: u8 = 11;
pub const ANSWER: u8 = 14;
pub const PREFETCH_TWO: u8 = 12;
pub const DESCRIBE: u8 = 13;

const MIB: u64 = 1 << 20;
const DEVICE: DeviceId = DeviceId(0);
/// Memory of the device; a model of it all needs every chunk.
const DEVICE_BYTES: u64 = 8 * MIB;
const CHUNK_BYTES: u64 = 2 * MIB;
/// Chunks of the simulated device are descriptors of this process.
const CHUNKS: &str = "/memfd:tetris-device-chunk";
/// Time for a well-behaved client to be served.
const LONG: Duration = Duration::from_mins(1);

/// A store with a mirror.
pub struct Site {
    server: Server<HostDevice>,
    socket: PathBuf,
    script: Script,
    /// The model of a well-behaved client: most of the device.
    large: Vec<ObjectRef>,
    _folder: TempDir,
}

impl Site {
    /// A site whose clients wait as long as `silence` for a silent server.
    pub fn new(silence: Duration) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = folder.path().join("store");
        let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
        let publish = |seed: u8, len: u64| {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8 ^ seed).collect();
            store.publish(&bytes, Access::ReadOnly).unwrap().object
        };
        let small = [publish(1, 1000), publish(2, 300_000)];
        let large = vec![publish(3, 3 * MIB), publish(4, 2 * MIB)];
        let script = script(&store, &small, &large, silence);
        let arena = ArenaConfig::try_new(CHUNK_BYTES, 2 * CHUNK_BYTES, 512, 12).unwrap();
        let light_bytes = residency::Config::default().light_bytes;
        let config = ServerConfig {
            residency: residency::Config { arena, light_bytes },
            executor: ExecutorConfig::try_new(2, 4, 64 << 10, 64 * MIB).unwrap(),
            limits: Limits {
                message_timeout: Duration::from_secs(2),
                longest_wait: Duration::from_secs(1),
                ..Limits::default()
            },
            // Registered pages are open objects.
            keep_pinned: Duration::ZERO,
            ..ServerConfig::default()
        };
        let served = ServedDevice {
            id: DEVICE,
            device: Arc::new(HostDevice::new(DEVICE_BYTES)),
            capacity_bytes: u64::MAX,
        };
        let server = Server::start(vec![served], &config).unwrap();
        let socket = folder.path().join("gpu");
        server.serve(TenantId(0), store, None, &socket).unwrap();
        let site = Self {
            server,
            socket,
            script,
            large,
            _folder: folder,
        };
        // What the first client makes stays.
        site.serves();
        site
    }

    /// Number of objects that were copied so far.
    pub fn copied(&self) -> u64 {
        self.server.counters().copied_objects
    }

    /// Plays the session that `input` describes. Returns true if no connection broke the protocol.
    ///
    /// # Panics
    ///
    /// If something is left of the session once its clients have gone: a connection, a held model, a
    /// descriptor; or if another client is not served, or gets other bytes.
    pub fn check(&self, input: &[u8]) -> bool {
        let before = open_descriptors(CHUNKS);
        let broken = self.server.counters().connections_broken;
        play(input, &self.script, &self.socket);
        self.is_quiet();
        let fine = self.server.counters().connections_broken == broken;
        self.serves();
        self.is_quiet();
        eventually("no descriptor is left", || {
            open_descriptors(CHUNKS) <= before
        });
        eventually("chunks are counted", || {
            let usage = self.server.usage(DEVICE).unwrap();
            let chunks = open_descriptors("/nowhere") - open_descriptors(CHUNKS);
            usage.created_bytes <= DEVICE_BYTES
                && chunks as u64 * CHUNK_BYTES <= usage.created_bytes
        });
        fine
    }

    fn is_quiet(&self) {
        eventually("no connection and no held model is left", || {
            let usage = self.server.usage(DEVICE).unwrap();
            self.server.connections() == 0 && usage.held_models == 0
        });
    }

    /// Has a well-behaved client served with a model that most of the device is needed for.
    fn serves(&self) {
        let wanted = Wanted {
            wait: LONG,
            ..Wanted::new(WantedModel::Objects(self.large.clone()))
        };
        let device = Arc::new(HostDevice::new(0));
        let client = Client::connect(&self.socket, MemoryKind::Host, LONG).unwrap();
        let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
        for object in &self.large {
            let bytes = model.read(&object.id, LONG).unwrap();
            assert_eq!(ObjectRef::of(&bytes), *object);
        }
    }
}

fn script(store: &Store, small: &[ObjectRef], large: &[ObjectRef], silence: Duration) -> Script {
    let entry = |object: &ObjectRef| ManifestObject {
        object: *object,
        kind: ObjectKind::File,
    };
    let manifest = Manifest {
        kind: ManifestKind::File,
        source_size: small[0].len,
        data_start: 0,
        header_digest: Digest::of(b""),
        metadata: Vec::new(),
        objects: vec![entry(&small[0])],
        tensors: Vec::new(),
    };
    let manifest = store.publish_manifest(&manifest).unwrap();
    let acquire = |wait_ms, order, model| {
        Request::Acquire(Acquire {
            on: None,
            wait_ms,
            order,
            model,
        })
    };
    let missing = ManifestId(Digest([9; 32]));
    let requests = [
        acquire(0, 0, ModelNamed::Objects(2)),
        Request::Objects(small.to_vec()),
        acquire(0, 0, ModelNamed::Manifests(vec![manifest])),
        acquire(0, 2, ModelNamed::Objects(2)),
        Request::Order(vec![1, 0]),
        Request::Taken,
        Request::Release,
        Request::ListDevices,
        Request::Status,
        acquire(60_000, 0, ModelNamed::Objects(large.len() as u32)),
        Request::Objects(large.to_vec()),
        acquire(0, 0, ModelNamed::Manifests(vec![missing])),
        Request::Prefetch(Acquire {
            on: None,
            wait_ms: 0,
            order: 0,
            model: ModelNamed::Objects(2),
        }),
        Request::Describe(Describe {
            device: HostDevice::new(0).info().unwrap().uuid,
            models: vec![ModelKey(Digest([9; 32]))],
        }),
    ];
    let mut messages: Vec<Vec<u8>> = requests.iter().map(Request::encode).collect();
    messages.push(Reply::Complete.encode());
    let hello = Request::Hello {
        memory: MemoryKind::Host,
        pid: 7,
    };
    Script {
        greeting: [PROTOCOL.preamble().as_slice(), &hello.encode()].concat(),
        messages,
        // Waiting, Granted, Places, Arrived, Description and Progress.
        passing: &[34, 36, 37, 38, 45, 50],
        model: b"a file".to_vec(),
        silence,
    }
}
