//! Frames that released versions of the protocol wrote, which later versions read (docs/compatibility.md).
//!
//! A fixture has a line for each message: its name, and the frame in hexadecimal. `UPDATE_FIXTURES=1` adds the messages
//! that the one of the current version lacks, and changes no line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tetris_store_layout::{
    Digest, ManifestId, ManifestKind, ObjectId, ObjectRef, TensorId, TrustDomain,
};

use super::*;
use crate::{FRAME_HEADER_BYTES, FrameHeader};

/// Fixtures, by version of the protocol.
const FIXTURES: [&str; 1] = ["daemon-1"];

fn fixture(name: &str) -> PathBuf {
    let file = format!("tests/fixtures/{name}.frames");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

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

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// A line for each message of this version: its name and its frame.
fn lines() -> Vec<(&'static str, String)> {
    let preamble = ("preamble", hexadecimal(&PROTOCOL.preamble()));
    let frames = messages().into_iter();
    let frames = frames.map(|(name, message)| (name, hexadecimal(&message.encode())));
    std::iter::once(preamble).chain(frames).collect()
}

/// Adds the messages that the current fixture lacks.
fn update(file: &Path) {
    if std::env::var_os("UPDATE_FIXTURES").is_none() {
        return;
    }
    let mut text = std::fs::read_to_string(file).unwrap_or_default();
    for (name, frame) in lines() {
        let head = format!("{name} ");
        if !text.lines().any(|line| line.starts_with(&head)) {
            text += &format!("{head}{frame}\n");
        }
    }
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[test]
fn frames_of_every_version_are_read() {
    let current = fixture("daemon-1");
    update(&current);
    let text = std::fs::read_to_string(current).unwrap();
    for (name, frame) in lines() {
        let line = format!("{name} {frame}");
        let found = text.lines().any(|other| other == line);
        assert!(
            found,
            "expected the line `{line}`; UPDATE_FIXTURES=1 adds it"
        );
    }
    for name in FIXTURES {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        let mut lines = text.lines().map(|line| line.split_once(' ').unwrap());
        let (_, preamble) = lines.next().unwrap();
        let preamble = bytes(preamble).try_into().unwrap();
        PROTOCOL.check_preamble(&preamble).unwrap();
        let kept: Vec<(&str, Vec<u8>)> = lines.map(|(name, frame)| (name, bytes(frame))).collect();
        for (message, frame) in &kept {
            let (header, payload) = frame.split_at(FRAME_HEADER_BYTES);
            let header = FrameHeader::decode(header.try_into().unwrap()).unwrap();
            assert_eq!(header.len, payload.len(), "{name}: {message}");
            let read = Message::decode(header.kind, payload).unwrap();
            let known = messages().into_iter().find(|(name, _)| name == message);
            let (_, expected) = known.unwrap_or_else(|| panic!("{name}: no message {message}"));
            assert_eq!(read, expected, "{name}: {message}");
            // A peer of that version reads what this one writes.
            assert_eq!(&expected.encode(), frame, "{name}: {message}");
        }
    }
}

#[test]
fn messages_are_of_every_kind() {
    let named: BTreeSet<u8> = messages()
        .iter()
        .map(|(_, message)| message.kind())
        .collect();
    let kinds: BTreeSet<u8> = (HELLO..=TURN_TAKEN).chain(INGEST..=ASK_DOMAIN).collect();
    assert_eq!(named, kinds);
}
