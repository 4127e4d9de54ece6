//! A store, a daemon that takes files for it, and a read-only view of it for clients.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tempfile::TempDir;
use tetris_agent::daemon::{FrameHeader, IngestReason, IngestRefusal, Message, preamble};
use tetris_agent::{Agent, CreateOptions, ManifestKind, Store};
use tetris_reclaimer::ingest::{AskRoom, Broker, IngestConfig, IngestOptions};
use tetris_reclaimer::node::{Refused, Room};
use tetris_reclaimer::socket::{Limits, Socket};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

pub const PATIENCE: Duration = Duration::from_mins(1);

/// Descriptors of the process are counted, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Polls until `done`.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn room(refused: Option<Refused>) -> Room {
    Room {
        refused,
        free_bytes: 0,
        freed_bytes: 0,
        missing_bytes: 7,
    }
}

/// A daemon that makes no room.
pub fn no_room() -> Arc<AskRoom> {
    Arc::new(|_, reply| reply(room(Some(Refused::InUse))))
}

pub struct Site {
    pub broker: Broker,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    mounts: Vec<PathBuf>,
    pub dir: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Site {
    /// A store on a tmpfs of `mib`; `None` for who may not mount, which is said.
    pub fn new(mib: u32, options: IngestOptions, room: Arc<AskRoom>) -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !nix::unistd::geteuid().is_root() {
            let test = std::thread::current();
            let test = test.name().unwrap_or("test").to_owned();
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: needs root to mount");
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (store, view) = (dir.path().join("store"), dir.path().join("view"));
        for folder in [&store, &view] {
            std::fs::create_dir(folder).unwrap();
        }
        let size = format!("size={mib}m,mode=0755");
        let flags = MsFlags::empty();
        mount(
            Some("tetris-test"),
            &store,
            Some("tmpfs"),
            flags,
            Some(size.as_str()),
        )
        .unwrap();
        Store::create(&store, &CreateOptions::default()).unwrap();
        mount(Some(&store), &view, none, MsFlags::MS_BIND, none).unwrap();
        let read_only = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, &view, none, read_only, none).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let broker = Broker::new(options, room);
        let socket = {
            let _inside = runtime.enter();
            Socket::bind(&store, "store")
                .unwrap()
                .with_broker(broker.clone())
        };
        let (stop, stopped) = oneshot::channel();
        let (asks, _nobody) = mpsc::channel(1);
        let stopped = async {
            let _ = stopped.await;
        };
        let served = runtime.spawn(socket.serve(asks, Limits::default(), |_| {}, stopped));
        Some(Self {
            broker,
            runtime: Some(runtime),
            stop: Some(stop),
            served: Some(served),
            mounts: vec![view, store],
            dir,
            _alone: alone,
        })
    }

    pub fn plain() -> Option<Self> {
        Self::new(64, IngestOptions::default(), no_room())
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The store as a container sees it.
    pub fn view(&self) -> PathBuf {
        self.dir.path().join("view")
    }

    pub fn agent(&self) -> Agent {
        Agent::open(self.view()).unwrap()
    }

    /// A file of one tensor, told from others by its seed.
    pub fn model(&self, name: &str, len: usize, seed: u8) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, safetensors(len, seed)).unwrap();
        path
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

    /// Nothing is in the store that a load of the whole would not find to be true.
    pub fn is_sound(&self) -> bool {
        let store = Store::open(self.store()).unwrap();
        std::fs::read_dir(store.objects_dir())
            .unwrap()
            .all(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let id = tetris_agent::TensorId::of(&std::fs::read(entry.path()).unwrap());
                name.starts_with(&id.to_string())
            })
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
        for mount in &self.mounts {
            let _ = umount2(mount, MntFlags::MNT_DETACH);
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
        quotas: [("store".to_owned(), bytes)].into(),
    }
}

pub fn tensor(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ seed).collect()
}

pub fn safetensors(len: usize, seed: u8) -> Vec<u8> {
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(tensor(len, seed));
    bytes
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
        raw.send(&preamble());
        raw.send(&Message::Hello { pid: 1 }.encode());
        raw.0.read_exact(&mut [0; 12]).unwrap();
        assert!(matches!(raw.receive(), Message::HelloAck { .. }));
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// An ingest with any number of descriptors.
    pub fn pass(&mut self, kind: ManifestKind, files: &[BorrowedFd<'_>]) {
        let frame = Message::Ingest { kind }.encode();
        self.send(&frame[..5]);
        let raw: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() {
            &rights[..0]
        } else {
            &rights
        };
        let bytes = [IoSlice::new(&frame[5..])];
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

    /// The next message that says how it ended.
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
