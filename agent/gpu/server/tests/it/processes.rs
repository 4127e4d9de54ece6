//! Clients and servers that are killed.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::inotify;
use tetris_gpu_client::{Acquired, Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_protocol::{Reply, Request};
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Limits, ServedDevice, Server};
use tetris_store_layout::{CreateOptions, ObjectRef, Store};

use crate::mirror::process::{Process, tell, variable, wait};
use crate::mirror::raw::Raw;
use crate::mirror::{self, DEVICE, LONG, MIB, Mirror, check, config, eventually};

const SOCKET: &str = "TETRIS_MIRROR_SOCKET";
const OBJECTS: &str = "TETRIS_MIRROR_OBJECTS";
const STEP: &str = "TETRIS_MIRROR_STEP";

/// The model of the processes: objects of `KIB` KiB each.
const NAMES: [&str; 3] = ["a", "b", "c"];
const KIB: usize = 2500;

fn environment(socket: &std::path::Path, objects: &[ObjectRef]) -> Vec<(&'static str, String)> {
    let objects = objects.iter();
    let objects: Vec<_> = objects
        .map(|object| format!("{} {}", object.file_name(), object.len))
        .collect();
    vec![
        (SOCKET, socket.display().to_string()),
        (OBJECTS, objects.join(",")),
    ]
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

fn acquire(socket: &std::path::Path, objects: &[ObjectRef]) -> Acquired<HostDevice> {
    let client = Client::connect(socket, MemoryKind::Host, LONG).unwrap();
    let wanted = Wanted {
        wait: LONG,
        ..Wanted::new(WantedModel::Objects(objects.to_vec()))
    };
    let device = Arc::new(HostDevice::new(0));
    client.acquire(device, &wanted, &mut |_| {}).unwrap()
}

const STEPS: [&str; 7] = [
    "connected",
    "greeted",
    "asked",
    "granted",
    "passed",
    "placed",
    "complete",
];

/// Runs up to the requested step, reports it, and waits to be killed.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_up_to_a_step() {
    let last = variable(STEP);
    let socket = PathBuf::from(variable(SOCKET));
    let reached = |step: &str| {
        if step == last {
            tell(step);
            loop {
                std::thread::park();
            }
        }
    };
    let _idle = (last == "connected").then(|| Raw::connect(&socket));
    reached("connected");
    let mut raw = Raw::greeted(&socket);
    reached("greeted");
    raw.ask_for(&objects(), 0);
    reached("asked");
    raw.hear_until(|reply| matches!(reply, Reply::Granted { .. }));
    reached("granted");
    raw.hear_until(|reply| matches!(reply, Reply::Chunks(_)));
    reached("passed");
    raw.say(&Request::Taken);
    raw.hear_until(|reply| matches!(reply, Reply::Places(_)));
    reached("placed");
    raw.hear_until(|reply| *reply == Reply::Complete);
    reached("complete");
}

#[test]
fn a_client_that_is_killed_at_any_step_leaves_nothing_behind() {
    // Room for one of the two models, and for another client's small one.
    let mirror = Mirror::new(14);
    let theirs = mirror.model(&["theirs"], 1000);
    let acquired = mirror.acquire(&theirs).unwrap();
    let model = mirror.model(&NAMES, KIB);
    let other = mirror.model(&["d", "e", "f"], KIB);
    for step in STEPS {
        let mut environment = environment(&mirror.socket, &model);
        environment.push((STEP, step.to_owned()));
        let mut client = Process::start("processes::client_up_to_a_step", &environment);
        assert_eq!(client.hear(), step);
        client.kill();
        // It fits only if the killed client holds nothing.
        let next = mirror.acquire_within(&other, LONG).unwrap();
        check(&next, &other, &["d", "e", "f"], KIB);
        next.release().unwrap();
        check(&acquired, &theirs, &["theirs"], 1000);
    }
    eventually("only one connection is left", || {
        mirror.server.connections() == 1
    });
    assert_eq!(mirror.usage().held_models, 1);
}

/// Maps the model, and checks it at each request.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_that_stays() {
    let socket = PathBuf::from(variable(SOCKET));
    let model = acquire(&socket, &objects());
    model.wait_all(LONG).unwrap();
    tell("mapped");
    loop {
        wait();
        check(&model, &objects(), &NAMES, KIB);
        tell("as it was");
    }
}

/// Serves a store until it is killed.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_store() {
    let socket = PathBuf::from(variable(SOCKET));
    let store = Arc::new(Store::open(socket.with_file_name("store")).unwrap());
    let served = ServedDevice {
        id: DEVICE,
        device: Arc::new(HostDevice::new(64 * MIB)),
        capacity_bytes: u64::MAX,
    };
    let server = Server::start(vec![served], &config(Limits::default())).unwrap();
    server.serve(TenantId(0), store, None, &socket).unwrap();
    tell("listening");
    loop {
        wait();
        let usage = server.usage(DEVICE).unwrap();
        tell(&format!("{} models", usage.models));
    }
}

/// Descriptors of chunks that a process has open.
fn chunks_of(process: u32) -> Vec<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let is_chunk = |path: &PathBuf| {
        let target = std::fs::read_link(path).unwrap_or_default();
        target
            .to_string_lossy()
            .starts_with("/memfd:tetris-device-chunk")
    };
    paths.filter(is_chunk).collect()
}

/// Number of watched files that have ceased to exist.
fn gone(watch: &rustix::fd::OwnedFd) -> usize {
    let mut space = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(watch, &mut space);
    let mut gone = 0;
    while let Ok(event) = events.next() {
        gone += usize::from(event.events().contains(inotify::ReadFlags::DELETE_SELF));
    }
    gone
}

#[test]
fn a_server_that_is_killed_leaves_clients_their_memory_until_they_go() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = directory.path().join("store");
    let store = Store::create(root, &CreateOptions::default()).unwrap();
    let objects = mirror::publish(&store, &NAMES, KIB);
    let socket = directory.path().join("gpu");
    let environment = environment(&socket, &objects);
    let mut server = Process::start("processes::server_of_a_store", &environment);
    assert_eq!(server.hear(), "listening");
    let mut stays = Process::start("processes::client_that_stays", &environment);
    assert_eq!(stays.hear(), "mapped");
    let here = acquire(&socket, &objects);
    here.wait(&objects[0].id, LONG).unwrap();
    server.kill();

    // No server listens, and the mappings are unchanged.
    let nobody = Client::connect(&socket, MemoryKind::Host, LONG);
    assert!(
        matches!(nobody, Err(ClientError::NoServer { .. })),
        "{nobody:?}"
    );
    stays.go_on();
    assert_eq!(stays.hear(), "as it was");
    assert!(here.read(&objects[0].id, LONG).is_ok());
    drop(here);

    // A new server starts empty, at the dead server's socket, and copies anew.
    let mut server = Process::start("processes::server_of_a_store", &environment);
    assert_eq!(server.hear(), "listening");
    server.go_on();
    assert_eq!(server.hear(), "0 models");
    let new = acquire(&socket, &objects);
    check(&new, &objects, &NAMES, KIB);
    stays.go_on();
    assert_eq!(stays.hear(), "as it was");

    // The old memory is freed with its last client.
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let old = chunks_of(stays.id());
    assert!(!old.is_empty());
    for chunk in &old {
        inotify::add_watch(&watch, chunk, inotify::WatchFlags::DELETE_SELF).unwrap();
    }
    assert_eq!(gone(&watch), 0);
    stays.kill();
    let mut count = 0;
    eventually("the old chunks are freed", || {
        count += gone(&watch);
        count == old.len()
    });
    check(&new, &objects, &NAMES, KIB);
}

#[test]
fn a_client_whose_model_was_still_coming_is_told_that_the_server_is_gone() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&NAMES, KIB);
    let model = mirror.acquire(&objects).unwrap();
    let Mirror { server, .. } = mirror;
    drop(server);
    match model.wait_all(LONG) {
        Ok(()) => check(&model, &objects, &NAMES, KIB),
        Err(error) => assert!(
            matches!(error, ClientError::Closed | ClientError::Failed { .. }),
            "{error:?}"
        ),
    }
    assert!(model.release().is_err());
}
