//! The committed seeds of the target `wire`: streams with a message of each kind, and streams
//! damaged in one place.
//!
//! A name that begins with `valid` must be accepted, one with `hostile` refused.

use tetris_gpu_device::{DeviceUuid, HANDLE_BYTES, MemoryKind};
use tetris_gpu_protocol::ModelKey;
use tetris_gpu_protocol::{
    self as gpu, Acquire, Describe, Description, DeviceEntry, DeviceStatus, Kept, LinkEntry,
    ModelEntry, ModelNamed, ModelState, PlaceEntry, Reason, Refused, Reply, Request, StatusReport,
    TransferEntry,
};
use tetris_store_layout::{Digest, ManifestId, ManifestKind, ObjectRef, TensorId, TrustDomain};
use tetris_wire::daemon::{
    self, BuildRequest, DerivedClaim, ErrorCode, IngestReason, IngestRefusal, Message, ModelReport,
    ModelStage, RoomReason, RoomRefusal,
};

/// Bytes that select the reading side; see `checks/wire.rs`.
const DAEMON: u8 = 0;
const GPU_SERVER: u8 = 1;
const GPU_CLIENT: u8 = 2;
/// Number of bytes that come at a time.
const PIECE: u8 = 7;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = vec![
        ("valid-daemon-messages", stream(DAEMON, &daemon_messages())),
        ("valid-gpu-requests", stream(GPU_SERVER, &requests())),
        ("valid-gpu-replies", stream(GPU_CLIENT, &replies())),
        ("valid-preamble-alone", stream(DAEMON, &[])),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-cut-preamble", stream(DAEMON, &[])[..9].to_vec()),
        ("hostile-other-protocol", other_protocol()),
        ("hostile-other-version", other_version()),
    ];
    for (name, side, frame) in DAMAGED {
        seeds.push((name, stream(*side, &[frame.to_vec()])));
    }
    seeds
}

/// Name, reading side and frame.
type Damaged = (&'static str, u8, &'static [u8]);

const DAMAGED: &[Damaged] = &[
    ("hostile-cut-header", DAEMON, &[4, 0, 0]),
    ("hostile-cut-payload", DAEMON, &[4, 0, 0, 0, 1, 9]),
    ("hostile-too-long", DAEMON, &[0xfc, 0xff, 0, 0, 1]),
    (
        "hostile-longest-length",
        GPU_SERVER,
        &[0xff, 0xff, 0xff, 0xff, 1],
    ),
    ("hostile-unknown-kind", DAEMON, &[0, 0, 0, 0, 200]),
    ("hostile-longer", DAEMON, &[1, 0, 0, 0, 7, 0]),
    ("hostile-not-utf8", DAEMON, &[3, 0, 0, 0, 6, 2, 0, 0xff]),
    ("hostile-ingest-of-no-kind", DAEMON, &[1, 0, 0, 0, 64, 3]),
    ("hostile-reply-to-a-server", GPU_SERVER, &[0, 0, 0, 0, 41]),
    (
        "hostile-memory-of-no-kind",
        GPU_SERVER,
        &[5, 0, 0, 0, 1, 9, 0, 0, 0, 0],
    ),
    (
        "hostile-half-an-object",
        GPU_SERVER,
        &[3, 0, 0, 0, 4, 1, 2, 3],
    ),
    (
        "hostile-chunks-without-lengths",
        GPU_CLIENT,
        &[0, 0, 0, 0, 64],
    ),
    (
        "hostile-name-beyond-the-payload",
        GPU_CLIENT,
        &[
            45, 0, 0, 0, 33, 1, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 0, 0,
            0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 64,
        ],
    ),
];

fn stream(side: u8, frames: &[Vec<u8>]) -> Vec<u8> {
    let protocol = if side == DAEMON {
        daemon::PROTOCOL
    } else {
        gpu::PROTOCOL
    };
    [
        [side, PIECE].as_slice(),
        &protocol.preamble(),
        &frames.concat(),
    ]
    .concat()
}

fn other_protocol() -> Vec<u8> {
    [[DAEMON, PIECE].as_slice(), &gpu::PROTOCOL.preamble()].concat()
}

fn other_version() -> Vec<u8> {
    let mut bytes = stream(DAEMON, &[]);
    bytes[10] = 2;
    bytes
}

fn text() -> String {
    "no room, caf\u{e9}".to_owned()
}

fn daemon_messages() -> Vec<Vec<u8>> {
    let messages = [
        Message::Hello { pid: 7 },
        Message::HelloAck {
            daemon: "0.1.0".to_owned(),
        },
        Message::MakeRoom {
            bytes: 1 << 33,
            inodes: 3,
        },
        Message::RoomMade {
            free_bytes: 1 << 34,
            freed_bytes: 0,
        },
        Message::RoomRefused(RoomRefusal {
            missing_bytes: 9,
            reason: RoomReason::IN_USE,
            text: text(),
        }),
        Message::Error {
            code: ErrorCode::MALFORMED,
            text: String::new(),
        },
        Message::Ingest {
            kind: ManifestKind::Safetensors,
        },
        Message::Ingest {
            kind: ManifestKind::File,
        },
        Message::IngestDone,
        Message::IngestWaiting { ahead: 2 },
        Message::IngestProgress { done: 1, total: 2 },
        Message::Ingested {
            manifest: ManifestId(Digest([5; 32])),
            bytes_read: 6,
        },
        Message::IngestRefused(IngestRefusal {
            reason: IngestReason::BUSY,
            text: text(),
        }),
        Message::Publish {
            object: ObjectRef::of(b"bytes"),
        },
        Message::Published {
            object: ObjectRef::of(b"bytes"),
            bytes_read: 5,
        },
        Message::Assemble {
            manifest_len: 300,
            sha256: Some([4; 32]),
        },
        Message::KeepModel {
            name: "llama-3.1-8b".to_owned(),
        },
        Message::ReportModel(ModelReport {
            stage: ModelStage::Pulling,
            done: 1,
            total: 2,
            bytes_per_second: 3,
            mount: 4,
            problem: text(),
        }),
        Message::ModelNoted,
        Message::RankModel { priority: 6 },
        Message::YieldModel,
        Message::RestoreModel { source: text() },
        Message::ModelRestored {
            objects: 6,
            bytes: 7,
        },
        Message::ServeModel { mount: 5 },
        Message::AskDomain,
        Message::Domain(Some(TrustDomain::User(1000))),
        Message::Domain(None),
        Message::RecordDerived(DerivedClaim {
            object: ObjectRef::of(b"bytes"),
            source: TensorId::of(b"source"),
            version: 1,
            transform: "cast bfloat16".to_owned(),
        }),
        Message::Recorded,
        Message::TakeTurn(BuildRequest {
            source: TensorId::of(b"source"),
            version: 1,
            transform: "layout pack".to_owned(),
        }),
        Message::TurnTaken,
        Message::Trace {
            parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        },
        Message::TraceKept,
    ];
    messages.iter().map(Message::encode).collect()
}

fn requests() -> Vec<Vec<u8>> {
    let acquire = |on, model| {
        Request::Acquire(Acquire {
            on,
            wait_ms: 1000,
            order: 2,
            model,
        })
    };
    let requests = [
        Request::Hello {
            memory: MemoryKind::Host,
            pid: 7,
        },
        Request::ListDevices,
        acquire(
            None,
            ModelNamed::Manifests(vec![ManifestId(Digest([1; 32]))]),
        ),
        acquire(Some(DeviceUuid([2; 16])), ModelNamed::Objects(1)),
        Request::Objects(vec![ObjectRef::of(b"one")]),
        Request::Order(vec![0, 1]),
        Request::Taken,
        Request::Release,
        Request::Status,
        Request::Describe(Describe {
            device: DeviceUuid([2; 16]),
            models: vec![ModelKey(Digest([3; 32]))],
        }),
        Request::Prefetch(Acquire {
            on: None,
            wait_ms: 0,
            order: 0,
            model: ModelNamed::Objects(1),
        }),
        Request::Keep {
            ttft_us: 500_000,
            most_bytes: 2,
        },
    ];
    requests.iter().map(Request::encode).collect()
}

fn replies() -> Vec<Vec<u8>> {
    let uuid = DeviceUuid([2; 16]);
    let replies = [
        Reply::HelloAck {
            memory: MemoryKind::CudaDescriptors,
            server: "0.1.0".to_owned(),
        },
        Reply::Devices(vec![DeviceEntry {
            number: 1,
            uuid,
            total_bytes: 3,
            free_bytes: 2,
            capacity_bytes: 1,
            name: "a device".to_owned(),
        }]),
        Reply::Waiting {
            need_bytes: 2,
            free_bytes: 1,
        },
        Reply::Refused(Refused {
            reason: Reason::MISSING,
            missing_bytes: 4,
            missing_objects: 1,
            text: text(),
        }),
        Reply::Granted {
            device: uuid,
            chunks: 1,
            objects: 1,
            copy_bytes: 3,
        },
        Reply::Chunks(vec![1 << 21]),
        Reply::Handles(vec![(1 << 21, [6; HANDLE_BYTES])]),
        Reply::Places(vec![PlaceEntry {
            object: ObjectRef::of(b"one").id,
            chunk: 0,
            offset: 256,
            len: 3,
        }]),
        Reply::Arrived(vec![0]),
        Reply::Complete,
        Reply::Failed {
            reason: Reason::COPY_FAILED,
            text: text(),
        },
        Reply::Released,
        Reply::StatusReport(StatusReport {
            connections: 1,
            leases: 1,
            waiting: 0,
            devices: vec![DeviceStatus {
                uuid,
                capacity_bytes: 4,
                created_bytes: 3,
                live_bytes: 2,
                held_bytes: 1,
                models: 1,
                held_models: 1,
            }],
        }),
        Reply::Error {
            code: gpu::ErrorCode::OUT_OF_TURN,
            text: text(),
        },
        Reply::Description(Description {
            device: uuid,
            capacity_bytes: 4,
            free_bytes: 1,
            bytes_per_second: Some(25_000_000_000),
            light_bytes: 2,
            links: 1,
            transfers: 2,
            models: 1,
            switch: "0000:01:00.0".to_owned(),
        }),
        Reply::Kept(Kept {
            prefix_bytes: 2,
            bytes_per_sec: 25_000_000_000,
        }),
        Reply::Links(vec![LinkEntry {
            to: DeviceUuid([3; 16]),
            bytes_per_second: None,
        }]),
        Reply::Transfers(vec![
            TransferEntry {
                model: Some(ModelKey(Digest([3; 32]))),
                bytes_left: 3,
            },
            TransferEntry {
                model: None,
                bytes_left: 5,
            },
        ]),
        Reply::Models(vec![ModelEntry {
            model: ModelKey(Digest([3; 32])),
            state: ModelState::Loading,
            bytes: 4,
            bytes_left: 3,
        }]),
        Reply::Progress(3),
    ];
    replies.iter().map(Reply::encode).collect()
}
