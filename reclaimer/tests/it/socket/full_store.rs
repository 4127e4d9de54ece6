//! Loads into a full store, with daemons of every kind beside them.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use tetris_agent::{
    Access, Agent, CreateOptions, LoadOptions, Model, PrivateCause, Store, TensorId, Words,
};
use tetris_node::socket::{Limits, RoomAnswer};
use tetris_store_layout::{ObjectRef, Reclaimed};
use tetris_wire::daemon::{RoomReason, RoomRefusal};

use crate::socket::common::Daemon;
use crate::socket::mount::Mount;
use tetris_test_support::settled::settle;

const MIB: usize = 1 << 20;

/// A store of 16 MiB and a directory for models.
struct Fixture {
    store: Store,
    mount: Mount,
    models: tempfile::TempDir,
}

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| seed ^ (at as u8) ^ ((at >> 8) as u8))
        .collect()
}

impl Fixture {
    fn new(options: &str) -> Option<Self> {
        let mount = Mount::tmpfs(options)?;
        let store = Store::create(mount.path(), &CreateOptions::default()).unwrap();
        let models = tempfile::tempdir().unwrap();
        Some(Self {
            store,
            mount,
            models,
        })
    }

    fn root(&self) -> &Path {
        self.mount.path()
    }

    /// Publishes objects that no one references, the oldest first.
    fn fill(&self, mib: u8) -> Vec<ObjectRef> {
        let publish = |seed| {
            let published = self.store.publish(&bytes(seed, MIB), Access::ReadOnly);
            published.unwrap().object
        };
        (0..mib).map(publish).collect()
    }

    /// A model of tensors of 1 MiB.
    fn model(&self, name: &str, seed: u8, tensors: u8) -> PathBuf {
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        for index in 0..tensors {
            let begin = data.len();
            data.extend(bytes(seed.wrapping_add(index), MIB));
            let tensor = serde_json::json!({
                "dtype": "U8", "shape": [MIB], "data_offsets": [begin, data.len()],
            });
            header.insert(format!("t{index:03}"), tensor);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let length = (header.len() as u64).to_le_bytes();
        let path = self.models.path().join(name);
        std::fs::write(&path, [length.as_slice(), &header, &data].concat()).unwrap();
        settle(&path);
        path
    }

    fn present(&self, objects: &[ObjectRef]) -> usize {
        objects
            .iter()
            .filter(|object| self.store.contains(object))
            .count()
    }
}

fn load(root: &Path, path: &Path, options: &LoadOptions) -> (Agent, Model) {
    let agent = Agent::open_store(root).unwrap();
    let model = agent.load_with(path, options).unwrap();
    (agent, model)
}

fn require_bytes(model: &Model, seed: u8, tensors: u8) {
    for index in 0..tensors {
        let tensor = model.tensor(&format!("t{index:03}")).unwrap();
        let expected = bytes(seed.wrapping_add(index), MIB);
        assert!(tensor.bytes() == expected, "bytes of tensor {index}");
    }
}

fn refusal() -> RoomAnswer {
    RoomAnswer::Refused(RoomRefusal {
        missing_bytes: 12_345,
        reason: RoomReason::POLICY,
        text: "all of it is declared warm".to_owned(),
    })
}

#[test]
fn a_daemon_that_frees_objects_lets_the_whole_model_into_the_store() {
    let Some(fixture) = Fixture::new("size=16m") else {
        return;
    };
    let objects = fixture.fill(14);
    let store = Store::open(fixture.root()).unwrap();
    // The newest first, which no agent would do.
    let mut order = objects.clone();
    let _daemon = Daemon::answering(fixture.root(), Limits::default(), move |ask| {
        let mut freed_bytes = 0;
        while freed_bytes < ask.bytes {
            let Some(object) = order.pop() else { break };
            if let Reclaimed::Freed { bytes } = store.reclaim(&object).unwrap() {
                freed_bytes += bytes;
            }
        }
        let free_bytes = store.usage().unwrap().free;
        RoomAnswer::Made {
            free_bytes,
            freed_bytes,
        }
    });
    let path = fixture.model("model.safetensors", 100, 8);
    let (_agent, model) = load(fixture.root(), &path, &LoadOptions::default());
    let report = model.report();
    assert_eq!(
        (report.bytes_private, report.bytes_new),
        (0, 8 << 20),
        "{report:?}"
    );
    require_bytes(&model, 100, 8);
    assert_eq!(fixture.present(&objects[..6]), 6, "the daemon chose others");
    assert!(fixture.present(&objects) <= 8);
}

#[test]
fn what_a_daemon_refuses_is_private_and_nothing_is_reclaimed_behind_its_back() {
    let Some(fixture) = Fixture::new("size=16m") else {
        return;
    };
    let objects = fixture.fill(14);
    let _daemon = Daemon::answering(fixture.root(), Limits::default(), |_| refusal());
    let path = fixture.model("model.safetensors", 100, 8);
    let (agent, model) = load(fixture.root(), &path, &LoadOptions::default());
    let report = model.report();
    assert!(report.bytes_private >= 6 << 20, "{report:?}");
    let reason = report.private_reason.as_deref().unwrap();
    assert!(reason.contains("No space left"), "{reason}");
    assert!(
        reason.contains("declared warm") && reason.contains("12345"),
        "{reason}"
    );
    let cause = report.private_cause.unwrap();
    assert!(
        matches!(cause, PrivateCause::Kept { needed } if needed > 16 << 20),
        "{cause:?}"
    );
    let remedy = report.remedy(Words::CommandLine).unwrap();
    assert!(
        remedy.contains("tetris init") && remedy.contains("[policy.store]"),
        "{remedy}"
    );
    require_bytes(&model, 100, 8);
    assert_eq!(fixture.present(&objects), 14);

    let make = || Ok::<_, ()>(bytes(50, 4 * MIB));
    let source = TensorId::of(b"source");
    let options = LoadOptions::default();
    let derived = agent
        .derive(source, "test", 1, &options, make)
        .unwrap()
        .unwrap();
    assert!(*derived == bytes(50, 4 * MIB));
    let reason = derived.private_reason().unwrap();
    assert!(reason.contains("declared warm"), "{reason}");
    assert_eq!(derived.private_cause().unwrap().code(), "kept");
    assert_eq!(fixture.present(&objects), 14);
}

#[test]
fn a_daemon_that_hangs_is_asked_once_and_the_agent_makes_room_itself() {
    let Some(fixture) = Fixture::new("size=16m") else {
        return;
    };
    fixture.fill(14);
    let listener = UnixListener::bind(fixture.store.daemon_socket()).unwrap();
    let options = LoadOptions::default().with_room_timeout(Duration::from_millis(200));
    let path = fixture.model("one.safetensors", 100, 8);
    let (agent, model) = load(fixture.root(), &path, &options);
    assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
    require_bytes(&model, 100, 8);
    drop(model);
    let path = fixture.model("two.safetensors", 150, 14);
    let model = agent.load_with(&path, &options).unwrap();
    assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok());
    let second = listener.accept().unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock, "asked once only");
}

#[test]
fn without_a_daemon_or_time_for_it_the_agent_makes_room_itself() {
    let Some(fixture) = Fixture::new("size=16m") else {
        return;
    };
    fixture.fill(14);
    drop(UnixListener::bind(fixture.store.daemon_socket()).unwrap());
    let path = fixture.model("one.safetensors", 100, 8);
    let (_agent, model) = load(fixture.root(), &path, &LoadOptions::default());
    assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
    drop(model);
    std::fs::remove_file(fixture.store.daemon_socket()).unwrap();
    let _daemon = Daemon::answering(fixture.root(), Limits::default(), |_| refusal());
    let options = LoadOptions::default().with_room_timeout(Duration::ZERO);
    let path = fixture.model("two.safetensors", 150, 14);
    let (_agent, model) = load(fixture.root(), &path, &options);
    assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
}

#[test]
fn a_store_without_inodes_asks_for_one() {
    let Some(fixture) = Fixture::new("size=64m,nr_inodes=40") else {
        return;
    };
    let left = fixture.store.usage().unwrap().inodes_free;
    // The socket needs one.
    let objects = fixture.fill(left as u8 - 1);
    let store = Store::open(fixture.root()).unwrap();
    let mut order = objects.clone();
    let asked = Arc::new(AtomicU64::new(0));
    let inodes = Arc::clone(&asked);
    let _daemon = Daemon::answering(fixture.root(), Limits::default(), move |ask| {
        inodes.fetch_add(u64::from(ask.inodes), Ordering::Relaxed);
        let object = order.pop().unwrap();
        store.reclaim(&object).unwrap();
        RoomAnswer::Made {
            free_bytes: store.usage().unwrap().free,
            freed_bytes: object.len,
        }
    });
    let path = fixture.model("model.safetensors", 100, 4);
    let (_agent, model) = load(fixture.root(), &path, &LoadOptions::default());
    assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
    let asked = asked.load(Ordering::Relaxed);
    assert!((4..=8).contains(&asked), "asked for {asked} inodes");
}

#[test]
fn an_agent_that_can_only_read_asks_for_nothing() {
    let Some(fixture) = Fixture::new("size=16m") else {
        return;
    };
    let objects = fixture.fill(15);
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let mut daemon = Daemon::answering(fixture.root(), Limits::default(), move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        refusal()
    });
    let remount = |flags| {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags;
        let none = None::<&str>;
        mount(none, fixture.root(), none, flags, none).unwrap();
    };
    remount(MsFlags::MS_RDONLY);
    let path = fixture.model("model.safetensors", 100, 8);
    let (_agent, model) = load(fixture.root(), &path, &LoadOptions::default());
    assert_eq!(
        model.report().bytes_private,
        8 << 20,
        "{:?}",
        model.report()
    );
    require_bytes(&model, 100, 8);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert_eq!(fixture.present(&objects), 15);
    remount(MsFlags::empty());
    daemon.stop();
}
