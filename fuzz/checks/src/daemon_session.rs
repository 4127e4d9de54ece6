//! Conditions on sessions with the node daemon's socket. Shared by the fuzz target and the tests of
//! the daemon.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tetris_node::ingest::{Broker, IngestConfig, IngestOptions};
use tetris_node::room::RoomResult;
use tetris_node::socket::{Limits, RoomAnswer, RoomAsk, Socket};
use tetris_store_layout::{
    CreateOptions, Digest, ManifestId, ManifestKind, ObjectRef, Store, TensorId,
};
use tetris_wire::daemon::{BuildRequest, DerivedClaim, Message, ModelReport, ModelStage, PROTOCOL};
use tetris_wire::{Connection, after, no_descriptors};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::session::{Script, eventually, open_descriptors, play};

/// Places of messages in the script.
pub const INGEST: u8 = 0;
pub const INGEST_FILE: u8 = 1;
pub const INGEST_DONE: u8 = 2;
pub const MAKE_ROOM: u8 = 3;
pub const MAKE_TOO_MUCH_ROOM: u8 = 4;
pub const ASK_WARM: u8 = 5;
pub const HELLO: u8 = 6;
pub const ANSWER: u8 = 7;
pub const PUBLISH: u8 = 8;
pub const ASK_DOMAIN: u8 = 9;
pub const RECORD: u8 = 10;
pub const TAKE_TURN: u8 = 11;
pub const ASSEMBLE: u8 = 12;
pub const KEEP_MODEL: u8 = 13;
pub const REPORT_MODEL: u8 = 14;
pub const SERVE_MODEL: u8 = 15;
pub const RANK_MODEL: u8 = 16;
pub const REPORT_NO_ROOM: u8 = 17;
pub const RESTORE_MODEL: u8 = 18;

/// Time for a well-behaved client to be answered.
const LONG: Duration = Duration::from_mins(1);

/// A store with a daemon's socket, and what happened there.
pub struct Site {
    // Ends before the folder.
    _runtime: Runtime,
    _folder: TempDir,
    root: PathBuf,
    store: Store,
    broker: Broker,
    faults: Arc<AtomicU64>,
    script: Script,
}

impl Site {
    /// A site whose clients wait as long as `silence` for a silent server.
    pub fn new(silence: Duration) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = folder.path().join("store");
        let store = Store::create(&root, &CreateOptions::default()).unwrap();
        let options = IngestOptions {
            config: IngestConfig {
                max_file_bytes: Some(1 << 20),
                ..IngestConfig::default()
            },
            ..IngestOptions::default()
        };
        let no_room = RoomResult {
            refused: None,
            free_bytes: 0,
            freed_bytes: 0,
            missing_bytes: 0,
        };
        let broker = Broker::new(options, Arc::new(move |_, reply| reply(no_room)));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let socket = {
            let _inside = runtime.enter();
            let socket = Socket::bind(&root, "store").unwrap();
            socket.with_broker(broker.clone())
        };
        let (asks, asked) = mpsc::channel(4);
        runtime.spawn(make_room(asked));
        let limits = Limits {
            idle: Duration::from_secs(2),
            ..Limits::default()
        };
        let faults = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&faults);
        let count = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        runtime.spawn(socket.serve(asks, limits, count, std::future::pending()));
        let site = Self {
            _runtime: runtime,
            _folder: folder,
            root,
            store,
            broker,
            faults,
            script: script(silence),
        };
        // What the first client makes stays.
        site.serves();
        site
    }

    /// Number of files that were published so far.
    pub fn served(&self) -> u64 {
        self.broker.counts().served
    }

    /// Plays the session that `input` describes. Returns true if the daemon saw no fault of the
    /// clients.
    ///
    /// # Panics
    ///
    /// If something is left of the session once its clients have gone: a descriptor, a file that is
    /// read or kept, or a reference to an object; or if another client is not served.
    pub fn check(&self, input: &[u8]) -> bool {
        let before = open_descriptors("/nowhere");
        let faults = self.faults.load(Ordering::Relaxed);
        play(input, &self.script, &self.root.join("daemon"));
        eventually("no file is read or kept", || {
            self.broker.active_files() == 0
        });
        self.serves();
        eventually("no descriptor is left", || {
            open_descriptors("/nowhere") <= before
        });
        let fine = self.faults.load(Ordering::Relaxed) == faults;
        for entry in self.store.objects().unwrap().objects {
            eventually("no object is referenced", || {
                !matches!(
                    self.store.reclaim(&entry.object),
                    Ok(tetris_store_layout::Reclaimed::Referenced) | Err(_)
                )
            });
        }
        for manifest in self.store.manifests().unwrap() {
            self.store.remove_manifest(manifest.id).unwrap();
        }
        self.store.collect_records().unwrap();
        fine
    }

    /// Has a well-behaved client answered.
    fn serves(&self) {
        let stream = UnixStream::connect(self.root.join("daemon")).unwrap();
        let connection = Connection::trusted(stream, no_descriptors).unwrap();
        let deadline = after(LONG);
        connection.send(&self.script.greeting, deadline).unwrap();
        let preamble = connection.preamble(deadline).unwrap();
        assert_eq!(PROTOCOL.check_preamble(&preamble), Ok(()));
        let (frame, _) = connection.receive(deadline).unwrap();
        let answer = Message::decode(frame.kind, &frame.payload);
        assert!(matches!(answer, Ok(Message::HelloAck { .. })), "{answer:?}");
    }
}

async fn make_room(mut asked: mpsc::Receiver<RoomAsk>) {
    while let Some(ask) = asked.recv().await {
        let made = RoomAnswer::Made {
            free_bytes: ask.bytes,
            freed_bytes: 0,
        };
        // The client may have gone.
        let _told = ask.reply.send(made);
    }
}

fn script(silence: Duration) -> Script {
    let json = br#"{"w":{"dtype":"U8","shape":[5000],"data_offsets":[0,5000]}}"#;
    let length = (json.len() as u64).to_le_bytes();
    let model = [length.as_slice(), json, &[7; 5000]].concat();
    let messages = [
        Message::Ingest {
            kind: ManifestKind::Safetensors,
        },
        Message::Ingest {
            kind: ManifestKind::File,
        },
        Message::IngestDone,
        Message::MakeRoom {
            bytes: 1 << 12,
            inodes: 1,
        },
        Message::MakeRoom {
            bytes: u64::MAX,
            inodes: u32::MAX,
        },
        Message::AskWarm {
            manifest: ManifestId(Digest([1; 32])),
        },
        Message::Hello { pid: 0 },
        Message::IngestWaiting { ahead: 1 },
        Message::Publish {
            object: ObjectRef::of(&model),
        },
        Message::AskDomain,
        Message::RecordDerived(DerivedClaim {
            object: ObjectRef::of(&model),
            source: TensorId(Digest([2; 32])),
            version: 1,
            transform: "cast".to_owned(),
        }),
        Message::TakeTurn(BuildRequest {
            source: TensorId(Digest([2; 32])),
            version: 1,
            transform: "cast".to_owned(),
        }),
        Message::Assemble {
            manifest_len: 12,
            sha256: None,
        },
        Message::KeepModel {
            name: "llama".to_owned(),
        },
        Message::ReportModel(ModelReport {
            stage: ModelStage::Pulling,
            done: 1,
            total: 2,
            bytes_per_second: 3,
            mount: 0,
            problem: String::new(),
        }),
        Message::ServeModel { mount: 1 },
        Message::RankModel { priority: 7 },
        Message::ReportModel(ModelReport {
            stage: ModelStage::Blocked,
            done: 1,
            total: 2,
            bytes_per_second: 0,
            mount: 0,
            problem: String::new(),
        }),
        Message::RestoreModel {
            source: "hf://org/model".to_owned(),
        },
    ];
    let hello = Message::Hello { pid: 7 }.encode();
    Script {
        greeting: [PROTOCOL.preamble().as_slice(), &hello].concat(),
        messages: messages.iter().map(Message::encode).collect(),
        // IngestWaiting and IngestProgress.
        passing: &[8, 9],
        silence,
        model,
    }
}
