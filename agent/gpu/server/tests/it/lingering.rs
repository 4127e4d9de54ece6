//! Device memory that processes keep after they have hung up, and tenants that take all places.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_client::{Acquired, Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_protocol::{PROTOCOL, Reason, Reply, Request};
use tetris_gpu_server::Limits;
use tetris_gpu_server::residency::TenantId;
use tetris_store_layout::{CreateOptions, ObjectRef, Store};

use crate::mirror::process::{Process, tell, variable, wait};
use crate::mirror::raw::Raw;
use crate::mirror::{LONG, MIB, Mirror, check, eventually, publish, refused, skipped};

const SOCKET: &str = "TETRIS_MIRROR_SOCKET";
const OBJECTS: &str = "TETRIS_MIRROR_OBJECTS";
const NAMES: [&str; 3] = ["a", "b", "c"];
const OTHERS: [&str; 3] = ["d", "e", "f"];
/// Each object takes a chunk of 4 MiB.
const KIB: usize = 2500;

/// Another tenant of a mirror.
struct Tenant {
    store: Arc<Store>,
    socket: PathBuf,
}

impl Tenant {
    fn new(mirror: &Mirror) -> Self {
        let root = mirror.directory.path().join("other");
        let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
        let socket = mirror.directory.path().join("other-gpu");
        let tenant = TenantId(1);
        mirror
            .server
            .serve(tenant, Arc::clone(&store), None, &socket)
            .unwrap();
        Self { store, socket }
    }

    fn acquire(
        &self,
        objects: &[ObjectRef],
        wait: Duration,
    ) -> Result<Acquired<HostDevice>, ClientError> {
        acquire(&self.socket, objects, wait)
    }
}

fn acquire(
    socket: &std::path::Path,
    objects: &[ObjectRef],
    wait: Duration,
) -> Result<Acquired<HostDevice>, ClientError> {
    let client = Client::connect(socket, MemoryKind::Host, LONG)?;
    let wanted = Wanted {
        wait,
        ..Wanted::new(WantedModel::Objects(objects.to_vec()))
    };
    client.acquire(Arc::new(HostDevice::new(0)), &wanted, &mut |_| {})
}

fn objects() -> Vec<ObjectRef> {
    let parse = |entry: &str| {
        let (name, len) = entry.split_once(' ').unwrap();
        let (id, crc) = name.split_once('-').unwrap();
        ObjectRef {
            id: id.parse().unwrap(),
            crc: u32::from_str_radix(crc, 16).unwrap(),
            len: len.parse().unwrap(),
        }
    };
    variable(OBJECTS).split(',').map(parse).collect()
}

/// Gets a model, hangs up, and keeps the descriptors.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_that_keeps_descriptors() {
    let mut raw = Raw::greeted(&PathBuf::from(variable(SOCKET)));
    raw.ask_for(&objects(), 0);
    raw.hear_until(|reply| matches!(reply, Reply::Granted { .. }));
    let kept = raw.descriptors();
    raw.say(&Request::Taken);
    raw.hear_until(|reply| *reply == Reply::Complete);
    drop(raw);
    tell("hung up");
    wait();
    drop(kept);
}

/// Gets a model, gives it back as the library does, and goes on.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_that_gives_back_and_stays() {
    let model = acquire(&PathBuf::from(variable(SOCKET)), &objects(), LONG).unwrap();
    model.wait_all(LONG).unwrap();
    model.release().unwrap();
    tell("hung up");
    wait();
}

fn client(test: &str, mirror: &Mirror, objects: &[ObjectRef]) -> Process {
    let objects = objects.iter();
    let objects: Vec<_> = objects
        .map(|object| format!("{} {}", object.file_name(), object.len))
        .collect();
    let environment = [
        (SOCKET, mirror.socket.display().to_string()),
        (OBJECTS, objects.join(",")),
    ];
    let mut client = Process::start(&format!("lingering::{test}"), &environment);
    assert_eq!(client.hear(), "hung up");
    client
}

/// Without this the memory would count as free, and the device would be given away twice.
#[test]
fn memory_that_a_process_keeps_counts_until_it_ends() {
    let mirror = Mirror::new(14);
    let other = Tenant::new(&mirror);
    let (model, next) = (mirror.model(&NAMES, KIB), mirror.model(&OTHERS, KIB));
    let theirs = publish(&other.store, &NAMES, KIB);
    let client = client("client_that_keeps_descriptors", &mirror, &model);
    if mirror.server.counters().untracked_connections > 0 {
        return skipped("this kernel does not tell which process connects");
    }
    eventually("the server has noticed", || {
        mirror.server.connections() == 0
    });
    // The model is idle, so it is evicted; then its memory turns out not to be free.
    for attempt in [
        other.acquire(&theirs, Duration::ZERO),
        mirror.acquire(&next),
    ] {
        match attempt.and_then(|model| model.wait_all(LONG).map(|()| model)) {
            Err(ClientError::Refused(why)) => assert_eq!(why.reason, Reason::IN_USE),
            Err(ClientError::Failed { reason, .. }) => assert_eq!(reason, Reason::DEVICE_FULL),
            other => panic!("expected no room, found {other:?}"),
        }
    }
    let usage = mirror.usage();
    // All chunks that the process keeps count. The eviction ends at the first that turns out to be kept, so
    // one lingers at least, and the others may still hold idle objects.
    assert_eq!(usage.created_bytes, 12 * MIB, "{usage:?}");
    let chunk = 4 * MIB;
    assert!(
        [chunk, 2 * chunk, 3 * chunk].contains(&usage.lingering_bytes),
        "{usage:?}"
    );
    let (reason, ..) = refused(other.acquire(&theirs, Duration::ZERO));
    assert_eq!(reason, Reason::IN_USE);
    client.kill();
    let free = other.acquire(&theirs, LONG).unwrap();
    check(&free, &theirs, &NAMES, KIB);
    assert_eq!(mirror.usage().lingering_bytes, 0);
}

#[test]
fn memory_that_a_process_gives_back_is_free_while_it_goes_on() {
    let mirror = Mirror::new(14);
    let other = Tenant::new(&mirror);
    let model = mirror.model(&NAMES, KIB);
    let theirs = publish(&other.store, &NAMES, KIB);
    let mut client = client("client_that_gives_back_and_stays", &mirror, &model);
    let free = other.acquire(&theirs, LONG).unwrap();
    check(&free, &theirs, &NAMES, KIB);
    assert_eq!(mirror.usage().lingering_bytes, 0);
    client.go_on();
}

/// Opens connections until the server takes no more.
fn fill(socket: &std::path::Path) -> Vec<Raw> {
    let mut open = Vec::new();
    loop {
        let mut raw = Raw::connect(socket);
        raw.send(&PROTOCOL.preamble());
        if raw.preamble().is_none() {
            return open;
        }
        open.push(raw);
    }
}

#[test]
fn no_tenant_takes_all_connections() {
    let limits = Limits {
        connections: 12,
        connections_of_user: 100,
        ..Limits::default()
    };
    let mirror = Mirror::with(32, limits, None);
    let alone = fill(&mirror.socket);
    assert_eq!(alone.len(), 12, "nobody else is there");
    drop(alone);
    let other = Tenant::new(&mirror);
    eventually("all have hung up", || mirror.server.connections() == 0);
    let first = fill(&mirror.socket);
    assert_eq!(first.len(), 6);
    let second = fill(&other.socket);
    assert!(second.len() >= 2, "{}", second.len());
    let theirs = publish(&other.store, &["x"], 100);
    drop(second);
    eventually("they have hung up", || {
        mirror.server.connections() == first.len()
    });
    let model = other.acquire(&theirs, LONG).unwrap();
    check(&model, &theirs, &["x"], 100);
}
