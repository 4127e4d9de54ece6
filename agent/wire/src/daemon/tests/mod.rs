//! The messages, byte by byte, and hostile bytes.

mod compatibility;

use proptest::prelude::*;

use tetris_store_layout::{FIRST_POD_DOMAIN, LAST_POD_DOMAIN, ObjectId, TensorId};

use super::kinds::{ASSEMBLE_BYTES, INGEST_PAYLOAD_BYTES};
use super::*;
use crate::{FRAME_HEADER_BYTES, FrameHeader};

fn text() -> impl Strategy<Value = String> {
    ".{0,128}"
}

fn object() -> impl Strategy<Value = ObjectRef> {
    any::<([u8; 32], u32, u64)>().prop_map(|(id, crc, len)| ObjectRef {
        id: ObjectId(Digest(id)),
        crc,
        len,
    })
}

fn domain() -> impl Strategy<Value = Option<TrustDomain>> {
    prop_oneof![
        Just(None),
        Just(Some(TrustDomain::Owner)),
        any::<u32>().prop_map(|uid| Some(TrustDomain::User(uid))),
        (FIRST_POD_DOMAIN..=LAST_POD_DOMAIN).prop_map(|number| Some(TrustDomain::Pods(number))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<u32>().prop_map(|pid| Message::Hello { pid }),
        text().prop_map(|daemon| Message::HelloAck { daemon }),
        any::<(u64, u32)>().prop_map(|(bytes, inodes)| Message::MakeRoom { bytes, inodes }),
        any::<(u64, u64)>().prop_map(|(free_bytes, freed_bytes)| Message::RoomMade {
            free_bytes,
            freed_bytes
        }),
        (any::<(u64, u16)>(), text()).prop_map(|((missing_bytes, reason), text)| {
            let reason = RoomReason(reason);
            Message::RoomRefused(RoomRefusal {
                missing_bytes,
                reason,
                text,
            })
        }),
        any::<bool>().prop_map(|whole| Message::Ingest {
            kind: if whole {
                ManifestKind::File
            } else {
                ManifestKind::Safetensors
            }
        }),
        Just(Message::IngestDone),
        any::<u32>().prop_map(|ahead| Message::IngestWaiting { ahead }),
        any::<(u64, u64)>().prop_map(|(done, total)| Message::IngestProgress { done, total }),
        any::<([u8; 32], u64)>().prop_map(|(id, bytes_read)| Message::Ingested {
            manifest: ManifestId(Digest(id)),
            bytes_read
        }),
        (any::<u16>(), text()).prop_map(|(reason, text)| {
            let reason = IngestReason(reason);
            Message::IngestRefused(IngestRefusal { reason, text })
        }),
        any::<[u8; 32]>().prop_map(|id| Message::AskWarm {
            manifest: ManifestId(Digest(id))
        }),
        any::<bool>().prop_map(|warm| Message::Warm { warm }),
        Just(Message::AskDomain),
        Just(Message::Recorded),
        Just(Message::TurnTaken),
        Just(Message::TraceKept),
        text().prop_map(|parent| Message::Trace { parent }),
        (any::<([u8; 32], u32)>(), text()).prop_map(|((source, version), transform)| {
            let source = TensorId(Digest(source));
            Message::TakeTurn(BuildRequest {
                source,
                version,
                transform,
            })
        }),
        domain().prop_map(Message::Domain),
        (object(), any::<([u8; 32], u32)>(), text()).prop_map(
            |(object, (source, version), transform)| {
                let source = TensorId(Digest(source));
                Message::RecordDerived(DerivedClaim {
                    object,
                    source,
                    version,
                    transform,
                })
            }
        ),
        object().prop_map(|object| Message::Publish { object }),
        (any::<u64>(), any::<Option<[u8; 32]>>()).prop_map(|(manifest_len, sha256)| {
            Message::Assemble {
                manifest_len,
                sha256,
            }
        }),
        "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?".prop_map(|name| Message::KeepModel { name }),
        Just(Message::ModelNoted),
        Just(Message::YieldModel),
        "[ -~]{0,100}".prop_map(|source| Message::RestoreModel { source }),
        any::<(u64, u64)>().prop_map(|(objects, bytes)| Message::ModelRestored { objects, bytes }),
        any::<u32>().prop_map(|priority| Message::RankModel { priority }),
        (1..=u64::MAX).prop_map(|mount| Message::ServeModel { mount }),
        (
            prop_oneof![
                Just(ModelStage::Pulling),
                Just(ModelStage::Present),
                Just(ModelStage::Failed),
                Just(ModelStage::Blocked)
            ],
            any::<[u64; 4]>(),
            text()
        )
            .prop_map(|(stage, [done, total, bytes_per_second, mount], problem)| {
                Message::ReportModel(ModelReport {
                    stage,
                    done,
                    total,
                    bytes_per_second,
                    mount,
                    problem,
                })
            }),
        (object(), any::<u64>())
            .prop_map(|(object, bytes_read)| Message::Published { object, bytes_read }),
        (any::<u16>(), text()).prop_map(|(code, text)| Message::Error {
            code: ErrorCode(code),
            text
        }),
    ]
}

/// The payload of a whole frame.
fn payload(message: &Message) -> Vec<u8> {
    message.encode().split_off(FRAME_HEADER_BYTES)
}

fn decode(frame: &[u8]) -> Result<Message, ProtocolError> {
    let (header, payload) = frame.split_first_chunk::<FRAME_HEADER_BYTES>().unwrap();
    let header = FrameHeader::decode(*header)?;
    assert_eq!(header.len, payload.len());
    Message::decode(header.kind, payload)
}

#[test]
fn the_preamble_is_what_the_document_says() {
    assert_eq!(PROTOCOL.preamble(), *b"TETRDAEM\x01\0\0\0");
    assert_eq!(PROTOCOL.check_preamble(&PROTOCOL.preamble()), Ok(()));
}

#[test]
fn another_version_and_another_program_are_told_apart() {
    let mut newer = PROTOCOL.preamble();
    newer[8] = 2;
    let version = ProtocolError::Version {
        found: 2,
        expected: 1,
    };
    assert_eq!(PROTOCOL.check_preamble(&newer), Err(version));
    let refusal = PROTOCOL.check_preamble(b"GET / HTTP/1").unwrap_err();
    assert!(matches!(refusal, ProtocolError::Magic { .. }), "{refusal}");
}

#[test]
fn a_request_is_the_bytes_that_the_document_says() {
    let message = Message::MakeRoom {
        bytes: 0x0102,
        inodes: 3,
    };
    let bytes = b"\x0c\0\0\0\x03\x02\x01\0\0\0\0\0\0\x03\0\0\0";
    assert_eq!(message.encode(), bytes);
}

#[test]
fn a_text_is_cut_between_characters() {
    let long = Message::HelloAck {
        daemon: format!("a{}", "\u{e9}".repeat(400)),
    };
    let Ok(Message::HelloAck { daemon }) = decode(&long.encode()) else {
        panic!("{long:?}");
    };
    assert_eq!(daemon, format!("a{}", "\u{e9}".repeat(255)));
}

#[test]
fn a_text_that_is_too_long_or_no_text_is_refused() {
    let long = Message::decode(ERROR, &[b'a'; 2 + MAX_TEXT_BYTES + 1]);
    assert!(
        matches!(long, Err(ProtocolError::Length { .. })),
        "{long:?}"
    );
    let text = Message::decode(ERROR, &[0, 0, 0xff]);
    assert_eq!(text, Err(ProtocolError::Text(ERROR)));
}

#[test]
fn what_an_ingest_is_made_of_has_to_be_known() {
    for (code, known) in [(0, false), (1, true), (2, true), (3, false), (255, false)] {
        assert_eq!(Message::decode(INGEST, &[code]).is_ok(), known, "{code}");
    }
    assert!(Message::decode(INGEST, &[]).is_err());
    assert!(Message::decode(INGEST, &[1, 1]).is_err());
    let whole = Message::Ingest {
        kind: ManifestKind::File,
    };
    assert_eq!(whole.encode(), b"\x01\0\0\0\x40\x02");
    assert_eq!(payload(&whole).len(), INGEST_PAYLOAD_BYTES);
}

#[test]
fn memory_is_passed_with_the_object_that_its_bytes_make() {
    let object = ObjectRef::of(b"abc");
    let frame = Message::Publish { object }.encode();
    assert_eq!(&frame[..5], b"\x2c\0\0\0\x41");
    assert_eq!(&frame[5..37], object.id.0.0.as_slice());
    assert_eq!(&frame[37..], b"\xc2\x41\x24\x35\x03\0\0\0\0\0\0\0");
    for (len, carries) in [(43, false), (44, true), (45, false)] {
        let header = FrameHeader { len, kind: PUBLISH };
        assert_eq!(carries_descriptor(header), carries, "{len}");
    }
}

#[test]
fn a_manifest_is_passed_with_a_digest_or_without() {
    let assemble = |sha256| Message::Assemble {
        manifest_len: 7,
        sha256,
    };
    let with = payload(&assemble(Some([3; 32])));
    assert_eq!(with[..9], [7, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(with.len(), ASSEMBLE_BYTES);
    let without = payload(&assemble(None));
    assert_eq!(without[8..], [0; 33]);
    // A digest that counts for nothing is no second encoding.
    for (at, byte) in [(8, 2), (40, 1)] {
        let mut other = without.clone();
        other[at] = byte;
        assert!(Message::decode(ASSEMBLE, &other).is_err(), "{at}");
    }
    for (len, carries) in [(40, false), (41, true), (42, false)] {
        let kind = ASSEMBLE;
        assert_eq!(
            carries_descriptor(FrameHeader { len, kind }),
            carries,
            "{len}"
        );
    }
}

proptest! {
    #[test]
    fn messages_survive_the_way(message in message()) {
        prop_assert_eq!(decode(&message.encode()), Ok(message));
    }

    #[test]
    fn a_cut_or_longer_message_of_fixed_length_is_refused(
        free: u64, inodes: u32, len in 0..30_usize,
    ) {
        let mut bytes = payload(&Message::MakeRoom { bytes: free, inodes });
        bytes.resize(len, 0);
        prop_assert_eq!(Message::decode(MAKE_ROOM, &bytes).is_ok(), len == 12);
    }

    #[test]
    fn garbage_is_refused_or_encodes_to_itself(kind: u8, bytes: Vec<u8>) {
        if let Ok(message) = Message::decode(kind, &bytes) {
            prop_assert_eq!(message.kind(), kind);
            prop_assert_eq!(payload(&message), bytes);
        }
    }
}
