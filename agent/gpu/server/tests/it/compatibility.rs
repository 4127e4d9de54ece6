//! Frames that released versions of the protocol wrote, which later versions read (docs/compatibility.md).
//! Names of messages begin with their side.

use tetris_gpu_device::{DeviceUuid, HANDLE_BYTES, MemoryKind};
use tetris_gpu_protocol::ModelKey;
use tetris_gpu_protocol::{
    Acquire, Describe, Description, DeviceEntry, DeviceStatus, ErrorCode, Kept, LinkEntry,
    ModelEntry, ModelNamed, ModelState, PROTOCOL, PlaceEntry, Reason, Refused, Reply, Request,
    StatusReport, TransferEntry,
};
use tetris_store_layout::{Digest, ManifestId, ObjectId, ObjectRef};
use tetris_test_support::frames;

/// Fixtures, by version of the protocol; the current one last.
const FIXTURES: [&str; 1] = ["mirror-1"];
/// The folder with the fixtures' crate.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

const UUID: DeviceUuid = DeviceUuid([1; 16]);
const MODEL: ModelKey = ModelKey(Digest([30; 32]));

/// One message of each kind of a client, by name.
fn requests() -> Vec<(&'static str, Request)> {
    let model = |on, model| Acquire {
        on,
        wait_ms: 2,
        order: 1,
        model,
    };
    let acquire = |on, named| Request::Acquire(model(on, named));
    vec![
        (
            "hello",
            Request::Hello {
                memory: MemoryKind::CudaDescriptors,
                pid: 3,
            },
        ),
        ("list-devices", Request::ListDevices),
        (
            "acquire-objects",
            acquire(Some(UUID), ModelNamed::Objects(1)),
        ),
        (
            "acquire-manifests",
            acquire(
                None,
                ModelNamed::Manifests(vec![ManifestId(Digest([4; 32]))]),
            ),
        ),
        (
            "objects",
            Request::Objects(vec![ObjectRef {
                id: ObjectId(Digest([5; 32])),
                crc: 6,
                len: 7,
            }]),
        ),
        ("order", Request::Order(vec![0])),
        ("taken", Request::Taken),
        ("release", Request::Release),
        ("status", Request::Status),
        (
            "describe",
            Request::Describe(Describe {
                device: UUID,
                models: vec![MODEL],
            }),
        ),
        (
            "prefetch",
            Request::Prefetch(model(Some(UUID), ModelNamed::Objects(1))),
        ),
        (
            "keep",
            Request::Keep {
                ttft_us: 41,
                most_bytes: 42,
            },
        ),
    ]
}

/// One message of each kind of a server, by name.
fn replies() -> Vec<(&'static str, Reply)> {
    let text = || "device memory is full".to_owned();
    vec![
        (
            "hello-ack",
            Reply::HelloAck {
                memory: MemoryKind::Host,
                server: "tetris-node 0.1.0".to_owned(),
            },
        ),
        (
            "devices",
            Reply::Devices(vec![DeviceEntry {
                number: 8,
                uuid: UUID,
                total_bytes: 9,
                free_bytes: 10,
                capacity_bytes: 11,
                name: "Tesla T4".to_owned(),
            }]),
        ),
        (
            "waiting",
            Reply::Waiting {
                need_bytes: 12,
                free_bytes: 13,
            },
        ),
        (
            "refused",
            Reply::Refused(Refused {
                reason: Reason(1),
                missing_bytes: 14,
                missing_objects: 15,
                text: text(),
            }),
        ),
        (
            "granted",
            Reply::Granted {
                device: UUID,
                chunks: 1,
                objects: 1,
                copy_bytes: 16,
            },
        ),
        (
            "places",
            Reply::Places(vec![PlaceEntry {
                object: ObjectId(Digest([5; 32])),
                chunk: 0,
                offset: 17,
                len: 7,
            }]),
        ),
        ("arrived", Reply::Arrived(vec![0])),
        ("complete", Reply::Complete),
        (
            "failed",
            Reply::Failed {
                reason: Reason(7),
                text: text(),
            },
        ),
        ("released", Reply::Released),
        (
            "status-report",
            Reply::StatusReport(StatusReport {
                connections: 18,
                leases: 19,
                waiting: 20,
                devices: vec![DeviceStatus {
                    uuid: UUID,
                    capacity_bytes: 21,
                    created_bytes: 22,
                    live_bytes: 23,
                    held_bytes: 24,
                    models: 25,
                    held_models: 26,
                }],
            }),
        ),
        (
            "error",
            Reply::Error {
                code: ErrorCode::OUT_OF_TURN,
                text: text(),
            },
        ),
        ("handles", Reply::Handles(vec![(27, [28; HANDLE_BYTES])])),
        (
            "description",
            Reply::Description(Description {
                device: UUID,
                capacity_bytes: 31,
                free_bytes: 32,
                bytes_per_second: Some(33),
                light_bytes: 34,
                links: 1,
                transfers: 2,
                models: 1,
                switch: "0000:17:00.0".to_owned(),
            }),
        ),
        (
            "links",
            Reply::Links(vec![LinkEntry {
                to: DeviceUuid([35; 16]),
                bytes_per_second: None,
            }]),
        ),
        (
            "transfers",
            Reply::Transfers(vec![
                TransferEntry {
                    model: Some(MODEL),
                    bytes_left: 36,
                },
                TransferEntry {
                    model: None,
                    bytes_left: 37,
                },
            ]),
        ),
        (
            "models",
            Reply::Models(vec![ModelEntry {
                model: MODEL,
                state: ModelState::Loading,
                bytes: 38,
                bytes_left: 39,
            }]),
        ),
        ("progress", Reply::Progress(40)),
        (
            "kept",
            Reply::Kept(Kept {
                prefix_bytes: 43,
                bytes_per_sec: 44,
            }),
        ),
        ("chunks", Reply::Chunks(vec![29])),
    ]
}

/// Frames of this version's messages, by side and name.
fn frames() -> Vec<(String, Vec<u8>)> {
    let requests = requests().into_iter();
    let asked = requests.map(|(name, request)| (format!("client/{name}"), request.encode()));
    let replies = replies().into_iter();
    let answered = replies.map(|(name, reply)| (format!("server/{name}"), reply.encode()));
    asked.chain(answered).collect()
}

fn find<T>(all: Vec<(&str, T)>, wanted: &str) -> T {
    let message = all.into_iter().find(|(name, _)| *name == wanted);
    message.unwrap_or_else(|| panic!("no message {wanted}")).1
}

#[test]
fn frames_of_every_version_are_read() {
    let last = FIXTURES.last().unwrap();
    frames::check_current(PACKAGE, last, &PROTOCOL.preamble(), &frames());
    for name in FIXTURES {
        let (preamble, kept) = frames::read(PACKAGE, name);
        PROTOCOL.check_preamble(&preamble).unwrap();
        for entry in kept {
            // Each is read as what it was, and a peer of that version reads what this entry writes.
            let (side, message) = entry.name.split_once('/').unwrap();
            let written = if side == "client" {
                let expected = find(requests(), message);
                let read = Request::decode(entry.kind, &entry.payload);
                assert_eq!(read, Ok(expected.clone()), "{name}: {message}");
                expected.encode()
            } else {
                let expected = find(replies(), message);
                let read = Reply::decode(entry.kind, &entry.payload);
                assert_eq!(read, Ok(expected.clone()), "{name}: {message}");
                expected.encode()
            };
            assert_eq!(written, entry.frame, "{name}: {message}");
        }
    }
}
