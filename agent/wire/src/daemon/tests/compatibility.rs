//! Frames that released versions of the protocol wrote, which later versions read (docs/compatibility.md).

use std::collections::BTreeSet;

use tetris_store_layout::{
    Digest, ManifestId, ManifestKind, ObjectId, ObjectRef, TensorId, TrustDomain,
};
use tetris_test_support::frames;

use crate::daemon::*;

/// Fixtures, by version of the protocol; the current one last.
const FIXTURES: [&str; 1] = ["daemon-1"];
/// The folder with the fixtures' crate.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

fn object() -> ObjectRef {
    ObjectRef {
        id: ObjectId(Digest([1; 32])),
        crc: 2,
        len: 3,
    }
}

/// One message of each kind, by name.
fn messages() -> Vec<(&'static str, Message)> {
    let manifest = ManifestId(Digest([4; 32]));
    let source = TensorId(Digest([5; 32]));
    let transform = "cast f32->bf16".to_owned();
    vec![
        ("hello", Message::Hello { pid: 6 }),
        (
            "hello-ack",
            Message::HelloAck {
                daemon: "tetris-node 0.1.0".to_owned(),
            },
        ),
        (
            "make-room",
            Message::MakeRoom {
                bytes: 7,
                inodes: 8,
            },
        ),
        (
            "room-made",
            Message::RoomMade {
                free_bytes: 9,
                freed_bytes: 10,
            },
        ),
        (
            "room-refused",
            Message::RoomRefused(RoomRefusal {
                missing_bytes: 11,
                reason: RoomReason(1),
                text: "no room".to_owned(),
            }),
        ),
        (
            "ingest",
            Message::Ingest {
                kind: ManifestKind::Safetensors,
            },
        ),
        ("ingest-done", Message::IngestDone),
        ("ingest-waiting", Message::IngestWaiting { ahead: 12 }),
        (
            "ingest-progress",
            Message::IngestProgress {
                done: 13,
                total: 14,
            },
        ),
        (
            "ingested",
            Message::Ingested {
                manifest,
                bytes_read: 15,
            },
        ),
        (
            "ingest-refused",
            Message::IngestRefused(IngestRefusal {
                reason: IngestReason::NO_ROOM,
                text: "no room".to_owned(),
            }),
        ),
        ("publish", Message::Publish { object: object() }),
        (
            "published",
            Message::Published {
                object: object(),
                bytes_read: 16,
            },
        ),
        (
            "assemble",
            Message::Assemble {
                manifest_len: 300,
                sha256: Some([9; 32]),
            },
        ),
        (
            "assemble-without-digest",
            Message::Assemble {
                manifest_len: 300,
                sha256: None,
            },
        ),
        ("ask-domain", Message::AskDomain),
        ("domain", Message::Domain(Some(TrustDomain::User(17)))),
        ("no-domain", Message::Domain(None)),
        (
            "record-derived",
            Message::RecordDerived(DerivedClaim {
                object: object(),
                source,
                version: 18,
                transform: transform.clone(),
            }),
        ),
        ("recorded", Message::Recorded),
        (
            "take-turn",
            Message::TakeTurn(BuildRequest {
                source,
                version: 19,
                transform,
            }),
        ),
        ("turn-taken", Message::TurnTaken),
        (
            "trace",
            Message::Trace {
                parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
            },
        ),
        ("trace-kept", Message::TraceKept),
        (
            "keep-model",
            Message::KeepModel {
                name: "llama-3.1-8b".to_owned(),
            },
        ),
        (
            "report-model",
            Message::ReportModel(ModelReport {
                stage: ModelStage::Pulling,
                done: 20,
                total: 21,
                bytes_per_second: 22,
                mount: 0,
                problem: String::new(),
            }),
        ),
        (
            "report-failure",
            Message::ReportModel(ModelReport {
                stage: ModelStage::Failed,
                done: 20,
                total: 21,
                bytes_per_second: 0,
                mount: 23,
                problem: "no answer".to_owned(),
            }),
        ),
        ("model-noted", Message::ModelNoted),
        ("rank-model", Message::RankModel { priority: 25 }),
        ("yield-model", Message::YieldModel),
        (
            "restore-model",
            Message::RestoreModel {
                source: "hf://org/model".to_owned(),
            },
        ),
        (
            "model-restored",
            Message::ModelRestored {
                objects: 26,
                bytes: 27,
            },
        ),
        ("serve-model", Message::ServeModel { mount: 24 }),
        ("ask-warm", Message::AskWarm { manifest }),
        ("warm", Message::Warm { warm: true }),
        (
            "error",
            Message::Error {
                code: ErrorCode::MALFORMED,
                text: "malformed".to_owned(),
            },
        ),
    ]
}

#[test]
fn frames_of_every_version_are_read() {
    let named = |(name, message): (&str, Message)| (name.to_owned(), message.encode());
    let current: Vec<_> = messages().into_iter().map(named).collect();
    let last = FIXTURES.last().unwrap();
    frames::check_current(PACKAGE, last, &PROTOCOL.preamble(), &current);
    for name in FIXTURES {
        let (preamble, kept) = frames::read(PACKAGE, name);
        PROTOCOL.check_preamble(&preamble).unwrap();
        for entry in kept {
            let message = &entry.name;
            let read = Message::decode(entry.kind, &entry.payload).unwrap();
            let known = messages().into_iter().find(|(name, _)| name == message);
            let (_, expected) = known.unwrap_or_else(|| panic!("{name}: no message {message}"));
            assert_eq!(read, expected, "{name}: {message}");
            // A peer of that version reads what this entry writes.
            assert_eq!(expected.encode(), entry.frame, "{name}: {message}");
        }
    }
}

#[test]
fn messages_are_of_every_kind() {
    let named: BTreeSet<u8> = messages()
        .iter()
        .map(|(_, message)| message.kind())
        .collect();
    let kinds: BTreeSet<u8> = (HELLO..=MODEL_RESTORED)
        .chain(INGEST..=SERVE_MODEL)
        .collect();
    assert_eq!(named, kinds);
}
