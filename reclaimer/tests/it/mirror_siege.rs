//! The GPU mirror's process in a cgroup with the limit that it ships with, under hostile clients of one store, beside a
//! victim of another. The device is simulated.
//!
//! `TETRIS_SIEGE_SECONDS` sets the duration.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_protocol::{
    Acquire, MAX_MODEL_OBJECTS, MAX_OBJECTS_PER_MESSAGE, ModelNamed, PROTOCOL, Reply, Request,
};
use tetris_hostile::cgroup::Cgroup;
use tetris_hostile::memory::private_bytes;
use tetris_hostile::siege;
use tetris_node::store::OpenStore;
use tetris_store_layout::{Access, CreateOptions, ObjectRef, Store};
use tetris_wire::{FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES};

use crate::daemon::harness::eventually;
use crate::mirror_process::{Place, as_user};
use tetris_test_support::skipped::skipped;
use tetris_test_support::stats;

/// Limit of the shipped container (`deploy/overlays/gpu/mirror.yaml`).
const LIMIT: u64 = 2 << 30;
/// Memory that the process may keep besides a fifth of that before: arenas of the C library.
const KEPT: u64 = 16 << 20;
/// Deadline of the victim.
const LONG: Duration = Duration::from_mins(1);
/// Loads of the victim before the attack.
const WARM: usize = 20;
/// Length of the victim's model, in bytes.
const BYTES: usize = 100_000;
/// Longest time until memory is back.
const RETURN: Duration = Duration::from_mins(1);
/// Pause of a hostile client before it connects again.
const AGAIN: Duration = Duration::from_millis(200);
/// Nice value of hostile threads.
const LEAST_PRIORITY: i32 = 19;
/// Longest time for which a client waits for bytes, before it looks whether the siege is over.
const LOOK: Duration = Duration::from_millis(500);

/// A client that takes what it can get.
#[derive(Debug, Clone, Copy)]
enum Hostile {
    Silent,
    HalfMessage,
    /// Holds a model of as many objects as there may be.
    LargestModel,
    /// Asks for as many objects, which the store does not have.
    UnknownModel,
    /// Asks for the status again and again, and reads no answer.
    Unread,
    Noise,
    /// Asks for a model, and leaves before it comes.
    Leaving,
}

/// Hostile clients, with the number of connections of each: fewer than a user may have.
const CLIENTS: [(Hostile, usize); 7] = [
    (Hostile::Silent, 30),
    (Hostile::HalfMessage, 30),
    (Hostile::LargestModel, 60),
    (Hostile::UnknownModel, 20),
    (Hostile::Unread, 30),
    (Hostile::Noise, 20),
    (Hostile::Leaving, 20),
];

/// Ground of hostile clients.
struct Ground {
    socket: PathBuf,
    objects: Vec<ObjectRef>,
    unknown: Vec<ObjectRef>,
    is_over: AtomicBool,
}

impl Ground {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Attacks until the end. What hostile threads take of the processors is the kernel's to share;
    /// that of the mirror is measured.
    fn attack(&self, hostile: Hostile) {
        setpriority_process(None, LEAST_PRIORITY).unwrap();
        while !self.is_over() {
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                // The server may hang up at any time.
                drop(self.attack_once(hostile, stream));
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn attack_once(&self, hostile: Hostile, mut stream: UnixStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        match hostile {
            Hostile::Silent => {}
            Hostile::Noise => stream.write_all(&[0xa5; 4096])?,
            Hostile::HalfMessage => {
                greet(&mut stream)?;
                let message = Request::Objects(self.objects[..1024].to_vec()).encode();
                stream.write_all(&message[..1000])?;
            }
            Hostile::LargestModel => {
                greet(&mut stream)?;
                ask_for(&mut stream, &self.objects)?;
            }
            Hostile::UnknownModel => {
                greet(&mut stream)?;
                ask_for(&mut stream, &self.unknown)?;
            }
            Hostile::Leaving => {
                greet(&mut stream)?;
                return ask_for(&mut stream, &self.objects);
            }
            Hostile::Unread => {
                greet(&mut stream)?;
                let status = Request::Status.encode().repeat(1000);
                while !self.is_over() {
                    stream.write_all(&status)?;
                }
                return Ok(());
            }
        }
        self.follow(&mut stream)
    }

    /// Reads until the server hangs up, and takes the chunks of a model. Their descriptors are dropped by the kernel.
    fn follow(&self, stream: &mut UnixStream) -> std::io::Result<()> {
        let mut buffer = Vec::new();
        while !self.is_over() {
            let mut bytes = [0; 8 << 10];
            match stream.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(read) => buffer.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            while let Some((header, rest)) = buffer.split_first_chunk::<FRAME_HEADER_BYTES>() {
                let Ok(header) = FrameHeader::decode(*header) else {
                    return Ok(());
                };
                let Some(payload) = rest.get(..header.len) else {
                    break;
                };
                let reply = Reply::decode(header.kind, payload);
                buffer.drain(..FRAME_HEADER_BYTES + header.len);
                if matches!(reply, Ok(Reply::Chunks(_) | Reply::Handles(_))) {
                    stream.write_all(&Request::Taken.encode())?;
                }
            }
        }
        Ok(())
    }
}

/// Exchanges greetings.
fn greet(stream: &mut UnixStream) -> std::io::Result<()> {
    stream.write_all(&PROTOCOL.preamble())?;
    let hello = Request::Hello {
        memory: MemoryKind::Host,
        pid: 1,
    };
    stream.write_all(&hello.encode())?;
    let mut preamble = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut preamble)
}

fn ask_for(stream: &mut UnixStream, objects: &[ObjectRef]) -> std::io::Result<()> {
    let acquire = Request::Acquire(Acquire {
        on: None,
        wait_ms: 60_000,
        order: 0,
        model: ModelNamed::Objects(objects.len() as u32),
    });
    stream.write_all(&acquire.encode())?;
    for part in objects.chunks(MAX_OBJECTS_PER_MESSAGE) {
        stream.write_all(&Request::Objects(part.to_vec()).encode())?;
    }
    Ok(())
}

/// A store of the hostile clients, with as many objects as a model may have.
fn hostile_store(root: &Path) -> (Store, Vec<ObjectRef>) {
    as_user(|| {
        let store = Store::create(root, &CreateOptions::default()).unwrap();
        let publish = |number: u32| {
            let published = store.publish(&number.to_le_bytes(), Access::ReadOnly);
            published.unwrap().object
        };
        let objects = (0..MAX_MODEL_OBJECTS).map(publish).collect();
        (store, objects)
    })
}

#[test]
fn under_siege_the_mirror_serves_within_its_memory_and_gives_it_back() {
    let cgroup = match Cgroup::new("mirror", LIMIT) {
        Ok(cgroup) => cgroup,
        Err(reason) => return skipped(&format!("limit of the mirror: {reason}")),
    };
    let place = Place::simulated();
    let mirror = place.mirror();
    std::fs::write(cgroup.path().join("cgroup.procs"), mirror.pid().to_string()).unwrap();
    let root = place.path("stores/hostile");
    let (store, objects) = hostile_store(&root);
    let mut broker = place.broker();
    broker.open.push(OpenStore {
        name: "hostile".to_owned(),
        objects: store.objects_dir(),
        id: store.id(),
        root: root.clone(),
    });
    broker.pass();
    broker.until_it_runs();
    let object = place.publish(7, BYTES);
    let load = || {
        let begun = Instant::now();
        let model = place.load(object);
        let bytes = model.read(&object.id, LONG).unwrap();
        assert_eq!(bytes, vec![7; BYTES]);
        begun.elapsed()
    };
    // The model of the hostile clients stays on the device, and the mirror knows its objects.
    let client = eventually("the hostile store's socket", || {
        Client::connect(&root.join("gpu"), MemoryKind::Host, LONG).ok()
    });
    let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
    let device = Arc::new(HostDevice::new(0));
    let model = client.acquire(device, &wanted, &mut |_| {}).unwrap();
    model.wait_all(LONG).unwrap();
    drop(model);
    let alone = median(&(0..WARM).map(|_| load()).collect::<Vec<_>>());
    let before = private_bytes(mirror.pid());

    let mut unknown = objects.clone();
    for object in &mut unknown {
        object.id.0.0[0] ^= 1;
    }
    let ground = Arc::new(Ground {
        socket: root.join("gpu"),
        objects,
        unknown,
        is_over: AtomicBool::new(false),
    });
    let mut attackers = Vec::new();
    for (hostile, count) in CLIENTS {
        for _ in 0..count {
            let ground = Arc::clone(&ground);
            attackers.push(std::thread::spawn(move || ground.attack(hostile)));
        }
    }
    let (mut most, mut loads) = (before, Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < siege::duration() {
        loads.push(load());
        most = most.max(private_bytes(mirror.pid()));
        std::thread::sleep(Duration::from_millis(20));
    }
    ground.is_over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.join().unwrap();
    }
    let (number, beside) = (loads.len(), median(&loads));
    let allowed = before + before / 5 + KEPT;
    let mut after = private_bytes(mirror.pid());
    let deadline = Instant::now() + RETURN;
    while after > allowed && Instant::now() < deadline {
        std::thread::sleep(Duration::from_secs(1));
        after = private_bytes(mirror.pid());
    }
    let _ = writeln!(
        std::io::stderr(),
        "private bytes: {before} before, {most} at most, {after} after; {number} loads, the median {beside:?}, {alone:?} alone"
    );
    assert!(after <= allowed, "{after} bytes, {before} before");
    load();
}

fn median(times: &[Duration]) -> Duration {
    let seconds: Vec<_> = times.iter().map(Duration::as_secs_f64).collect();
    Duration::from_secs_f64(stats::median(&seconds).unwrap())
}
