//! A daemon that takes files for a store, and clients that send whatever a test wants.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tetris_agent::{Agent, ManifestKind};
use tetris_node::ingest::{AskRoom, Broker, IngestConfig, IngestOptions};
use tetris_node::room::{RoomRefusal, RoomResult};
use tetris_node::socket::{Limits, Socket};
use tetris_reclaimer_core::{Policy, PolicyConfig, StorePolicy};
use tetris_store_layout::ObjectRef;
use tetris_wire::FrameHeader;
use tetris_wire::daemon::{IngestReason, IngestRefusal, Message, PROTOCOL};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::ingest::ground::Ground;

pub const PATIENCE: Duration = Duration::from_mins(1);

/// Polls until `done`.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn room(refused: Option<RoomRefusal>) -> RoomResult {
    RoomResult {
        refused,
        free_bytes: 0,
        freed_bytes: 0,
        missing_bytes: 7,
    }
}

/// A daemon that makes no room.
pub fn no_room() -> Arc<AskRoom> {
    Arc::new(|_, reply| reply(room(Some(RoomRefusal::InUse))))
}

pub struct Site {
    pub broker: Broker,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    // Dropped last: its mounts are in use before.
    ground: Ground,
}

impl Deref for Site {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl Site {
    /// A store on a tmpfs of `mib`; `None` for who may not mount, which is said.
    pub fn new(mib: u32, options: IngestOptions, room: Arc<AskRoom>) -> Option<Self> {
        Self::within(mib, options, room, Limits::default())
    }

    /// One whose socket has these limits.
    pub fn within(
        mib: u32,
        options: IngestOptions,
        room: Arc<AskRoom>,
        limits: Limits,
    ) -> Option<Self> {
        Some(Self::on(Ground::new(mib)?, options, room, limits))
    }

    fn on(ground: Ground, options: IngestOptions, room: Arc<AskRoom>, limits: Limits) -> Self {
        Self::on_with(ground, options, room, limits, false)
    }

    fn on_with(
        ground: Ground,
        options: IngestOptions,
        room: Arc<AskRoom>,
        limits: Limits,
        pods: bool,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let broker = Broker::new(options, room);
        let socket = {
            let _inside = runtime.enter();
            Socket::bind(&ground.store(), "store")
                .unwrap()
                .with_broker(broker.clone())
                .for_readers(pods)
        };
        let (stop, stopped) = oneshot::channel();
        let (asks, _nobody) = mpsc::channel(1);
        let stopped = async {
            let _ = stopped.await;
        };
        let served = runtime.spawn(socket.serve(asks, limits, |_| {}, stopped));
        Self {
            broker,
            runtime: Some(runtime),
            stop: Some(stop),
            served: Some(served),
            ground,
        }
    }

    /// One whose clients are pods.
    pub fn of_pods() -> Option<Self> {
        let (options, limits) = (IngestOptions::default(), Limits::default());
        let site = Self::on_with(Ground::new(64)?, options, no_room(), limits, true);
        let socket = site.store().join("daemon");
        let user = Some(tetris_store_layout::SOCKET_USER);
        std::os::unix::fs::lchown(socket, user, user).unwrap();
        Some(site)
    }

    pub fn plain() -> Option<Self> {
        Self::new(64, IngestOptions::default(), no_room())
    }

    pub fn agent(&self) -> Agent {
        Agent::open_store(self.view()).unwrap()
    }

    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let (Some(runtime), Some(served)) = (&self.runtime, self.served.take()) {
            runtime.block_on(served).unwrap();
        }
    }

    /// Passes `file` and returns what comes of it, having said that it is done.
    pub fn pass(&self, file: impl AsFd, kind: ManifestKind) -> Message {
        let mut raw = Raw::greeted(&self.view());
        raw.pass(kind, &[file.as_fd()]);
        let answer = raw.answer();
        raw.send(&Message::IngestDone.encode());
        answer
    }

    pub fn refusal(&self, file: impl AsFd, kind: ManifestKind) -> IngestReason {
        match self.pass(file, kind) {
            Message::IngestRefused(IngestRefusal { reason, .. }) => reason,
            other => panic!("no refusal: {other:?}"),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(runtime) = self.runtime.take() {
            if let Some(served) = self.served.take() {
                let _ = runtime.block_on(served);
            }
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

/// One user, one turn, and a quota, so that room is asked for before anything is read.
pub fn with_quota(bytes: u64) -> IngestOptions {
    IngestOptions {
        config: IngestConfig {
            queue_per_user: 1,
            ..IngestConfig::default()
        },
        policy: limited(bytes),
        ..IngestOptions::default()
    }
}

/// A limit for each store.
pub fn limited(bytes: u64) -> Policy {
    let store = StorePolicy {
        limit_bytes: Some(bytes),
        ..StorePolicy::default()
    };
    let config = PolicyConfig {
        store,
        ..PolicyConfig::default()
    };
    Policy::try_new(config).unwrap()
}

pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A client that sends whatever a test wants.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn connect(root: &Path) -> Self {
        let stream = UnixStream::connect(root.join("daemon")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub fn greeted(root: &Path) -> Self {
        let mut raw = Self::connect(root);
        raw.send(&PROTOCOL.preamble());
        raw.send(&Message::Hello { pid: 1 }.encode());
        raw.0.read_exact(&mut [0; 12]).unwrap();
        assert!(matches!(raw.receive(), Message::HelloAck { .. }));
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Memory that is to become `object`, with any number of descriptors.
    pub fn pass_memory(&mut self, object: ObjectRef, files: &[BorrowedFd<'_>]) {
        let frame = Message::Publish { object }.encode();
        self.send(&frame[..5]);
        self.send_with(&frame[5..], files);
    }

    /// An ingest with any number of descriptors.
    pub fn pass(&mut self, kind: ManifestKind, files: &[BorrowedFd<'_>]) {
        let frame = Message::Ingest { kind }.encode();
        self.send(&frame[..5]);
        self.send_with(&frame[5..], files);
    }

    /// Bytes with any number of descriptors.
    pub fn send_with(&mut self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let raw: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() {
            &rights[..0]
        } else {
            &rights
        };
        let bytes = [IoSlice::new(bytes)];
        sendmsg::<()>(self.0.as_raw_fd(), &bytes, rights, MsgFlags::empty(), None).unwrap();
    }

    pub fn receive(&mut self) -> Message {
        let mut header = [0; 5];
        self.0.read_exact(&mut header).unwrap();
        let header = FrameHeader::decode(header).unwrap();
        let mut payload = vec![0; header.len];
        self.0.read_exact(&mut payload).unwrap();
        Message::decode(header.kind, &payload).unwrap()
    }

    /// The next message with the outcome.
    pub fn answer(&mut self) -> Message {
        loop {
            match self.receive() {
                Message::IngestWaiting { .. } | Message::IngestProgress { .. } => {}
                other => return other,
            }
        }
    }
}

pub fn open(path: &Path) -> File {
    File::open(path).unwrap()
}
