//! Kernels that are queued ahead of their bytes: none reads a tensor before it, under random delays,
//! evictions and cancellations, a fault at each step, and with consumers that die in the middle.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tetris_gpu_client::{Acquired, Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostQueue;
use tetris_gpu_device::host::{Faults, HostDevice, LinkCosts};
use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::residency::{self, DeviceId, TenantId};
use tetris_gpu_server::{ServedDevice, Server, ServerConfig, TemplateConfig};
use tetris_store_layout::{Access, CreateOptions, ObjectRef, Store};

pub const LONG: Duration = Duration::from_mins(1);
pub const MIB: u64 = 1 << 20;
const CHUNK: u64 = 2 * MIB;
const GROUP: u64 = 64 << 10;

pub struct Node {
    directory: tempfile::TempDir,
    store: Arc<Store>,
    device: HostDevice,
    pub server: Server<HostDevice>,
}

impl Node {
    /// A server of a device with room for `room` bytes.
    pub fn new(room: u64, costs: LinkCosts, budget_bytes: u64) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(directory.path().join("store"), &CreateOptions::default());
        let store = Arc::new(store.unwrap());
        let device = HostDevice::with_link(room, costs);
        let standard = ArenaConfig::default();
        let arena = ArenaConfig::try_new(
            standard.granule_bytes(),
            CHUNK,
            standard.align_bytes(),
            standard.waste_percent(),
        );
        let config = ServerConfig {
            residency: residency::Config {
                arena: arena.unwrap(),
                ..residency::Config::default()
            },
            executor: ExecutorConfig::try_new(2, 4, GROUP, 0).unwrap(),
            templates: TemplateConfig {
                budget_bytes,
                ..TemplateConfig::default()
            },
            ..ServerConfig::default()
        };
        let served = ServedDevice {
            id: DeviceId(0),
            device: Arc::new(device.clone()),
            capacity_bytes: room,
        };
        let server = Server::start(vec![served], &config).unwrap();
        let socket = directory.path().join("gpu");
        server
            .serve(TenantId(0), Arc::clone(&store), None, &socket)
            .unwrap();
        Self {
            directory,
            store,
            device,
            server,
        }
    }

    /// A model of objects of `bytes` each; equal numbers are equal objects.
    pub fn model(&self, numbers: &[u8], bytes: usize) -> Vec<ObjectRef> {
        let publish = |number: &u8| {
            let content: Vec<u8> = (0..bytes)
                .map(|at| number.wrapping_add(at as u8) | 1)
                .collect();
            self.store
                .publish(&content, Access::ReadOnly)
                .unwrap()
                .object
        };
        numbers.iter().map(publish).collect()
    }

    pub fn acquire(&self, model: &[ObjectRef]) -> Result<Acquired<HostDevice>, ClientError> {
        let client = Client::connect(&self.directory.path().join("gpu"), MemoryKind::Host, LONG)?;
        let wanted = Wanted {
            wait: LONG,
            order: (0..model.len() as u32).collect(),
            ..Wanted::new(WantedModel::Objects(model.to_vec()))
        };
        client.acquire(Arc::new(HostDevice::new(0)), &wanted, &mut |_| {})
    }
}

/// Kernels that read objects, and the wrong bytes that they found.
#[derive(Default)]
struct Seen {
    kernels: AtomicUsize,
    wrong: Mutex<Vec<usize>>,
}

/// Queues a wait and a kernel for each object. Returns before any of them must run.
fn queue(
    queue: &HostQueue,
    held: &Arc<Acquired<HostDevice>>,
    model: &[ObjectRef],
    seen: &Arc<Seen>,
    arrivals: &tetris_gpu_client::Arrivals,
) {
    for (at, object) in model.iter().enumerate() {
        queue.queue(held.wait_step(&object.id, arrivals).unwrap());
        let (held, seen, object) = (Arc::clone(held), Arc::clone(seen), *object);
        queue.queue(move || {
            seen.kernels.fetch_add(1, Ordering::Relaxed);
            let mut bytes = vec![0; object.len as usize];
            held.read_part(&object.id, 0, &mut bytes).unwrap();
            if ObjectRef::of(&bytes).id != object.id {
                seen.wrong.lock().unwrap().push(at);
            }
        });
    }
}

fn slow() -> LinkCosts {
    LinkCosts {
        bytes_per_sec: 20_000_000,
        each: Duration::from_micros(50),
    }
}

#[test]
fn kernels_are_queued_before_their_bytes_are_there_and_read_the_right_ones() {
    let node = Node::new(16 * MIB, slow(), 0);
    let model = node.model(&[1, 2, 3, 4, 5, 6, 7, 8], 300_000);
    let acquired = Arc::new(node.acquire(&model).unwrap());
    let (stream, seen) = (HostQueue::new().unwrap(), Arc::<Seen>::default());
    let arrivals = acquired.arrivals(LONG);
    queue(&stream, &acquired, &model, &seen, &arrivals);
    let last = model.last().unwrap();
    assert!(!acquired.is_ready(&last.id).unwrap(), "the host is ahead");
    assert!(seen.kernels.load(Ordering::Relaxed) < model.len());
    arrivals.check(LONG).unwrap();
    stream.synchronize();
    assert_eq!(seen.kernels.load(Ordering::Relaxed), model.len());
    assert_eq!(*seen.wrong.lock().unwrap(), Vec::<usize>::new());
}

#[test]
fn a_stream_goes_on_when_its_bytes_will_not_come_and_the_check_says_so() {
    // A fault at each copy.
    let model_of = |node: &Node| node.model(&[1, 2, 3, 4], 100_000);
    for copies in 0..9 {
        let node = Node::new(16 * MIB, slow(), 0);
        let model = model_of(&node);
        node.device.set_faults(Faults {
            copies,
            ..Faults::default()
        });
        let acquired = match node.acquire(&model) {
            Ok(held) => Arc::new(held),
            Err(ClientError::Failed { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let (stream, seen) = (HostQueue::new().unwrap(), Arc::<Seen>::default());
        let arrivals = acquired.arrivals(LONG);
        queue(&stream, &acquired, &model, &seen, &arrivals);
        let checked = arrivals.check(LONG);
        // Not stuck, whatever has arrived.
        stream.synchronize();
        assert_eq!(seen.kernels.load(Ordering::Relaxed), model.len());
        let wrong = seen.wrong.lock().unwrap().clone();
        assert!(
            checked.is_err() || wrong.is_empty(),
            "{copies}: {wrong:?} of a good check"
        );
        if copies < 8 {
            assert!(checked.is_err(), "8 groups, and {copies} copies");
        }
    }
}

#[test]
fn a_stream_goes_on_when_the_server_ends() {
    let node = Node::new(16 * MIB, slow(), 0);
    let model = node.model(&[1, 2, 3, 4, 5, 6, 7, 8], 300_000);
    let acquired = Arc::new(node.acquire(&model).unwrap());
    let (stream, seen) = (HostQueue::new().unwrap(), Arc::<Seen>::default());
    let arrivals = acquired.arrivals(LONG);
    queue(&stream, &acquired, &model, &seen, &arrivals);
    drop(node.server);
    let checked = arrivals.check(LONG);
    stream.synchronize();
    assert!(checked.is_err() || seen.wrong.lock().unwrap().is_empty());
}

#[test]
fn a_wait_ends_at_its_limit() {
    let node = Node::new(
        16 * MIB,
        LinkCosts {
            bytes_per_sec: 200_000,
            ..LinkCosts::default()
        },
        0,
    );
    let model = node.model(&[1, 2], 300_000);
    let acquired = Arc::new(node.acquire(&model).unwrap());
    let (stream, seen) = (HostQueue::new().unwrap(), Arc::<Seen>::default());
    let arrivals = acquired.arrivals(Duration::from_millis(20));
    queue(&stream, &acquired, &model, &seen, &arrivals);
    stream.synchronize();
    acquired.wait_all(LONG).unwrap();
    assert!(matches!(
        arrivals.check(LONG),
        Err(ClientError::TimedOut { .. })
    ));
}

#[derive(Debug, Clone)]
enum Move {
    /// A client loads this model, and computes with it or dies before it is done.
    Use {
        model: usize,
        dies_after: Option<u64>,
    },
    /// A client keeps a prefix of this length.
    Keep {
        model: usize,
        bytes: u64,
    },
    Check,
}

fn moves() -> impl Strategy<Value = Vec<Vec<Move>>> {
    let step = prop_oneof![
        5 => (0usize..3, prop::option::weighted(0.4, 0u64..8_000))
            .prop_map(|(model, dies_after)| Move::Use { model, dies_after }),
        2 => (0usize..3, 0u64..3 * MIB).prop_map(|(model, bytes)| Move::Keep { model, bytes }),
        1 => Just(Move::Check),
    ];
    prop::collection::vec(prop::collection::vec(step, 1..5), 1..4)
}

fn make_move(node: &Node, models: &[Vec<ObjectRef>], one: &Move, failures: &AtomicU64) {
    match one {
        Move::Check => node.server.check(),
        Move::Keep { model, bytes } => {
            let acquired = node.acquire(&models[*model]).unwrap();
            acquired.keep(Duration::from_millis(1), *bytes).unwrap();
        }
        Move::Use { model, dies_after } => {
            let model = &models[*model];
            let acquired = Arc::new(node.acquire(model).unwrap());
            let (stream, seen) = (HostQueue::new().unwrap(), Arc::<Seen>::default());
            let arrivals = acquired.arrivals(LONG);
            queue(&stream, &acquired, model, &seen, &arrivals);
            if let Some(micros) = dies_after {
                // It goes in the middle, without a check: kernels that are queued keep the model.
                thread::sleep(Duration::from_micros(*micros));
                drop((arrivals, acquired));
                drop(stream);
                assert_eq!(*seen.wrong.lock().unwrap(), Vec::<usize>::new());
                return;
            }
            if arrivals.check(LONG).is_err() {
                failures.fetch_add(1, Ordering::Relaxed);
            }
            stream.synchronize();
            assert_eq!(*seen.wrong.lock().unwrap(), Vec::<usize>::new());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Clients in parallel, on a device with room for two of three models that share objects.
    #[test]
    fn no_kernel_reads_a_tensor_before_its_bytes(
        clients in moves(),
        rate in 40_000_000u64..2_000_000_000,
        each_us in 0u64..200,
        budget in 0u64..4 * MIB,
    ) {
        let costs = LinkCosts { bytes_per_sec: rate, each: Duration::from_micros(each_us) };
        let node = Node::new(12 * MIB, costs, budget);
        let models = [
            node.model(&[1, 2, 3, 4, 5], 700_000),
            node.model(&[1, 2, 13, 14, 15], 700_000),
            node.model(&[21, 22, 23, 4], 900_000),
        ];
        let failures = AtomicU64::new(0);
        thread::scope(|scope| {
            let (node, models, failures) = (&node, &models, &failures);
            for moves in &clients {
                scope.spawn(move || {
                    for entry in moves {
                        make_move(node, models, entry, failures);
                    }
                });
            }
        });
        // Nothing failed on a device without faults.
        prop_assert_eq!(failures.into_inner(), 0);
    }
}
