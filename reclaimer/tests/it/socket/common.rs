//! A store, a daemon's socket in it, and raw clients.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tetris_agent::{CreateOptions, Store};
use tetris_node::socket::{Fault, Limits, RoomAnswer, RoomAsk, Socket};
use tetris_wire::FrameHeader;
use tetris_wire::daemon::{Message, PROTOCOL};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

/// Longer than anything here takes, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Polls until `done`.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn store_dir() -> TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    Store::create(dir.path(), &CreateOptions::default()).unwrap();
    dir
}

/// A daemon that answers requests with `handler`.
pub struct Daemon {
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
    pub faults: Arc<Mutex<Vec<Fault>>>,
}

impl Daemon {
    /// Starts one at `root` with a handler that may answer later, or never.
    pub fn start(
        root: &Path,
        limits: Limits,
        mut handler: impl FnMut(RoomAsk) + Send + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (sender, mut asks) = mpsc::channel(4);
        let (stop, stopped) = oneshot::channel();
        let faults = Arc::new(Mutex::new(Vec::new()));
        let socket = {
            let _inside = runtime.enter();
            Socket::bind(root, "store").unwrap()
        };
        let noted = Arc::clone(&faults);
        let note = move |fault| noted.lock().unwrap().push(fault);
        let stopped = async {
            let _ = stopped.await;
        };
        let served = runtime.spawn(socket.serve(sender, limits, note, stopped));
        runtime.spawn_blocking(move || {
            while let Some(ask) = asks.blocking_recv() {
                handler(ask);
            }
        });
        Self {
            runtime: Some(runtime),
            stop: Some(stop),
            served: Some(served),
            faults,
        }
    }

    /// One that answers each request with `answer`.
    pub fn answering(
        root: &Path,
        limits: Limits,
        mut answer: impl FnMut(&RoomAsk) -> RoomAnswer + Send + 'static,
    ) -> Self {
        Self::start(root, limits, move |ask| {
            let answer = answer(&ask);
            let _ = ask.reply.send(answer);
        })
    }

    pub fn has_fault(&self, wanted: impl Fn(&Fault) -> bool) -> bool {
        self.faults.lock().unwrap().iter().any(wanted)
    }

    /// Ends it as SIGTERM would.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let (Some(runtime), Some(served)) = (&self.runtime, self.served.take()) {
            runtime.block_on(served).unwrap();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(runtime) = self.runtime.take() {
            if let Some(served) = self.served.take() {
                let _ = runtime.block_on(served);
            }
            // A handler that never returns would be waited for.
            runtime.shutdown_background();
        }
    }
}

/// A positive answer.
pub fn made(_: &RoomAsk) -> RoomAnswer {
    RoomAnswer::Made {
        free_bytes: 1 << 20,
        freed_bytes: 1 << 10,
    }
}

/// A client that sends whatever a test wants.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn connect(root: &Path) -> Self {
        let stream = UnixStream::connect(root.join("daemon")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Connects and presents itself.
    pub fn greeted(root: &Path) -> Self {
        let mut raw = Self::connect(root);
        raw.send(&PROTOCOL.preamble());
        raw.send(&Message::Hello { pid: 1 }.encode());
        let mut theirs = [0; 12];
        raw.0.read_exact(&mut theirs).unwrap();
        assert_eq!(theirs, PROTOCOL.preamble());
        assert!(matches!(raw.receive(), Message::HelloAck { .. }));
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self) -> Message {
        let mut header = [0; 5];
        self.0.read_exact(&mut header).unwrap();
        let header = FrameHeader::decode(header).unwrap();
        let mut payload = vec![0; header.len];
        self.0.read_exact(&mut payload).unwrap();
        Message::decode(header.kind, &payload).unwrap()
    }

    /// Reads until the other side hangs up.
    pub fn hung_up(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

pub const ASK: Message = Message::MakeRoom {
    bytes: 4096,
    inodes: 0,
};
