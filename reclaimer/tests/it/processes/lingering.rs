//! Pods that pass sockets whose last close waits (SO_LINGER with a full send buffer): the
//! thread that closes one stands still.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::libc::linger;
use nix::sys::socket::sockopt::{Linger, RcvBuf, SndBuf};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tetris_agent::Agent;
use tetris_agent::ManifestKind;
use tetris_agent::daemon::{DaemonClient, DaemonError};
use tetris_node::csi::wire::{ProbeRequest, ProbeResponse};
use tetris_wire::Closer;
use tetris_wire::daemon::{Message, PROTOCOL};
use tokio::runtime::Runtime;

use crate::csi::fixture::{Host, PATIENCE, call};
use crate::processes::node::Node;

/// Longer than any test waits.
const LINGER_SECS: i32 = 3600;
const CONNECTIONS: usize = 300;
/// The bar for an answer of the daemon while it is attacked.
const BAR: Duration = Duration::from_millis(100);
/// Answers of each kind that a round waits for after the attack was made.
const ANSWERS: usize = 20;
/// The machine may be busy for a moment; a daemon that waits for a close is so in every round.
const ROUNDS: usize = 3;

/// Sockets that no one reads from, connected to ours.
struct Sink {
    listener: TcpListener,
    unread: Vec<TcpStream>,
    closer: Closer,
}

impl Sink {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Those that are accepted have it too.
        setsockopt(&listener, RcvBuf, &2048).unwrap();
        Self {
            listener,
            unread: Vec::new(),
            closer: Closer::new(1),
        }
    }

    /// A socket whose last close waits.
    fn lingering(&mut self) -> OwnedFd {
        let port = self.listener.local_addr().unwrap().port();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        self.unread.push(self.listener.accept().unwrap().0);
        setsockopt(&stream, SndBuf, &2048).unwrap();
        stream.set_nonblocking(true).unwrap();
        loop {
            match stream.write(&[7; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let wait = linger {
            l_onoff: 1,
            l_linger: LINGER_SECS,
        };
        setsockopt(&stream, Linger, &wait).unwrap();
        stream.into()
    }
}

/// Sends `bytes`, and `fds` with them. A connection that was refused is no matter.
fn pass(to: &UnixStream, bytes: &[u8], fds: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(fds)];
    let rights = if fds.is_empty() { &[][..] } else { &rights[..] };
    let _refused = sendmsg::<()>(
        to.as_raw_fd(),
        &[IoSlice::new(bytes)],
        rights,
        MsgFlags::MSG_NOSIGNAL,
        None,
    );
}

/// A connection that passes descriptors in one of the ways in which a server can come to close
/// them.
fn attack(socket: &Path, sink: &mut Sink, way: usize) -> Option<UnixStream> {
    let lingering_socket = sink.lingering();
    let to = UnixStream::connect(socket).unwrap();
    // Where the server is faster the last close is ours.
    let stays = sink.closer.attend(|| {
        let stays = send(&to, lingering_socket.as_raw_fd(), way);
        drop(lingering_socket);
        stays
    });
    stays.then_some(to)
}

/// Sends one message. Returns true if the client stays.
fn send(to: &UnixStream, fd: RawFd, way: usize) -> bool {
    let (first, hello) = (PROTOCOL.preamble(), Message::Hello { pid: 1 }.encode());
    let ingest = Message::Ingest {
        kind: ManifestKind::Safetensors,
    };
    let ingest = ingest.encode();
    match way % 5 {
        // Where none are expected.
        0 => pass(to, &first, &[fd]),
        // More than are expected.
        1 => {
            pass(to, &[first.as_slice(), &hello, &ingest[..5]].concat(), &[]);
            pass(to, &ingest[5..], &[fd, fd, fd]);
        }
        // With a message that carries none, and more before that is read.
        2 => {
            pass(to, &[first.as_slice(), &hello].concat(), &[]);
            pass(to, &ASK, &[fd]);
        }
        // Left unread: the client has gone, or is refused, before the server comes to it.
        3 => {
            pass(to, &[first.as_slice(), &hello].concat(), &[fd]);
            return false;
        }
        // In a socket's queue, in a socket's queue.
        _ => {
            let (one, other) = UnixStream::pair().unwrap();
            pass(&one, b"x", &[fd]);
            pass(to, &first, &[other.as_raw_fd()]);
        }
    }
    true
}

const ASK: [u8; 17] = [12, 0, 0, 0, 3, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn healthz(address: SocketAddr) -> std::io::Result<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = b"GET /healthz/broker HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(begun.elapsed())
}

fn probe(runtime: &Runtime, socket: PathBuf) -> Duration {
    let begun = Instant::now();
    let method = "/csi.v1.Identity/Probe";
    let answer: ProbeResponse = runtime
        .block_on(call(socket, method, ProbeRequest {}))
        .unwrap();
    assert_eq!(answer.ready, Some(true));
    begun.elapsed()
}

fn greet(socket: &Path) -> Duration {
    let begun = Instant::now();
    // Pods may not have room made, and are refused with the reason.
    let outcome = DaemonClient::new(socket, PATIENCE).make_room(1, 0);
    assert!(
        matches!(outcome, Err(DaemonError::RoomRefused(_))),
        "{outcome:?}"
    );
    begun.elapsed()
}

/// The longest wait for an answer until it is done, and for some answers after that.
fn worst(done: &AtomicBool, mut ask: impl FnMut() -> Duration) -> Duration {
    let (mut worst, mut after) = (Duration::ZERO, 0);
    while after < ANSWERS {
        let attacked = done.load(Ordering::Relaxed);
        worst = worst.max(ask());
        after += usize::from(attacked);
    }
    worst
}

/// The longest waits for the broker's health, a CSI probe and another pod's socket while `attack` is under
/// way, and for some answers after it.
fn longest(
    host: &Host,
    address: SocketAddr,
    other: &Path,
    attack: impl FnOnce() + Send,
) -> [Duration; 3] {
    let runtime = Runtime::new().unwrap();
    let done = &AtomicBool::new(false);
    let csi = host.config().socket();
    let runtime = &runtime;
    let other = other.to_owned();
    std::thread::scope(|scope| {
        let threads = [
            scope.spawn(move || worst(done, || healthz(address).unwrap())),
            scope.spawn(move || worst(done, || probe(runtime, csi.clone()))),
            scope.spawn(move || worst(done, || greet(&other))),
        ];
        attack();
        done.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn sockets_whose_last_close_waits_hold_up_nobody_but_who_passes_them() {
    let Some(mut node) = Node::new() else { return };
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    node.api.make("green");
    for name in ["volumes", "cluster", "broker"] {
        node.start(name);
    }
    node.serves();
    node.register();
    let [blue, green] = ["blue", "green"].map(|name| {
        let target = node.host.target(name);
        node.publish(&target, name).unwrap();
        let socket = target.join("daemon");
        node.processes
            .eventually("its socket", |_| UnixStream::connect(&socket).is_ok());
        target
    });
    node.answers_readyz("HTTP/1.1 200");
    let address = node.probes();
    let mut sink = Sink::new();
    let mut told = Vec::new();
    for _ in 0..ROUNDS {
        let mut open = Vec::new();
        let waits = longest(&node.host, address, &green.join("daemon"), || {
            let socket = blue.join("daemon");
            open.extend((0..CONNECTIONS).map(|way| attack(&socket, &mut sink, way)));
        });
        told.push(waits);
        drop(open);
        if waits.iter().all(|wait| *wait < BAR) {
            break;
        }
    }
    println!("longest waits for /healthz/broker, a probe and another pod's socket: {told:?}");
    let best = told.iter().map(|waits| waits.iter().max().unwrap()).min();
    assert!(*best.unwrap() < BAR, "{told:?}: {}", node.processes.logs());
    // The attacked store itself serves on.
    let file = node.model_file();
    let deadline = Instant::now() + PATIENCE;
    while Agent::open_store(&blue)
        .unwrap()
        .load(&file)
        .unwrap()
        .report()
        .private_reason
        .is_some()
    {
        assert!(Instant::now() < deadline, "{}", node.processes.logs());
    }
    // Some are left in every state when it ends.
    let socket = blue.join("daemon");
    let _open: Vec<_> = (0..CONNECTIONS)
        .map(|way| attack(&socket, &mut sink, way))
        .collect();
    node.processes.stop_all();
}
