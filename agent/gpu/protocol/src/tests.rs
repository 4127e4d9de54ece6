//! Messages survive encoding and decoding, and hostile bytes become errors.

use proptest::collection::vec;
use proptest::prelude::*;
use tetris_store_layout::{Digest, ManifestId, ObjectId, ObjectRef};
use tetris_wire::{FRAME_HEADER_BYTES, FrameHeader, MAX_FRAME_BYTES, ProtocolError};

use super::*;
use crate::ModelKey;
use tetris_gpu_device::{DeviceUuid, HANDLE_BYTES, MemoryKind};

fn kinds() -> impl Strategy<Value = MemoryKind> {
    prop::sample::select(vec![
        MemoryKind::CudaDescriptors,
        MemoryKind::CudaHandles,
        MemoryKind::Host,
    ])
}

fn ids() -> impl Strategy<Value = ObjectId> {
    any::<[u8; 32]>().prop_map(|bytes| ObjectId(Digest(bytes)))
}

fn uuids() -> impl Strategy<Value = DeviceUuid> {
    any::<[u8; 16]>().prop_map(DeviceUuid)
}

fn objects() -> impl Strategy<Value = ObjectRef> {
    (ids(), any::<u32>(), any::<u64>()).prop_map(|(id, crc, len)| ObjectRef { id, crc, len })
}

fn acquires() -> impl Strategy<Value = Acquire> {
    let manifests = ids().prop_map(|id| ManifestId(id.0));
    let model = prop_oneof![
        (1..=MAX_MODEL_OBJECTS).prop_map(ModelNamed::Objects),
        vec(manifests, 1..=MAX_MANIFESTS).prop_map(ModelNamed::Manifests),
    ];
    let on = prop::option::of(uuids());
    (on, any::<u32>(), any::<u32>(), model).prop_map(|(on, wait_ms, order, model)| Acquire {
        on,
        wait_ms,
        order,
        model,
    })
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (kinds(), any::<u32>()).prop_map(|(memory, pid)| Request::Hello { memory, pid }),
        Just(Request::ListDevices),
        acquires().prop_map(Request::Acquire),
        vec(objects(), 1..40).prop_map(Request::Objects),
        vec(any::<u32>(), 1..40).prop_map(Request::Order),
        Just(Request::Taken),
        Just(Request::Release),
        Just(Request::Status),
        any::<[u64; 2]>().prop_map(|[ttft_us, most_bytes]| Request::Keep {
            ttft_us,
            most_bytes,
        }),
        (uuids(), vec(keys(), 0..40))
            .prop_map(|(device, models)| Request::Describe(Describe { device, models })),
        acquires().prop_map(Request::Prefetch),
    ]
}

fn keys() -> impl Strategy<Value = ModelKey> {
    any::<[u8; 32]>().prop_map(|bytes| ModelKey(Digest(bytes)))
}

fn descriptions() -> impl Strategy<Value = Description> {
    let counts = (0..=64u32, 0..=1025u32, 0..=1024u32);
    let rate = prop::option::of(1..=u64::MAX);
    (uuids(), any::<[u64; 3]>(), rate, counts, "[ -~]{0,64}").prop_map(
        |(device, bytes, bytes_per_second, (links, transfers, models), switch)| Description {
            device,
            capacity_bytes: bytes[0],
            free_bytes: bytes[1],
            bytes_per_second,
            light_bytes: bytes[2],
            links,
            transfers,
            models,
            switch,
        },
    )
}

fn links() -> impl Strategy<Value = LinkEntry> {
    let rate = prop::option::of(1..=u64::MAX);
    (uuids(), rate).prop_map(|(to, bytes_per_second)| LinkEntry {
        to,
        bytes_per_second,
    })
}

fn transfers() -> impl Strategy<Value = TransferEntry> {
    (prop::option::of(keys()), any::<u64>())
        .prop_map(|(model, bytes_left)| TransferEntry { model, bytes_left })
}

fn model_entries() -> impl Strategy<Value = ModelEntry> {
    use ModelState::{Absent, Loading, Resident};
    let state = prop::sample::select(vec![Absent, Loading, Resident]);
    (keys(), state, any::<[u64; 2]>()).prop_map(|(model, state, [bytes, bytes_left])| ModelEntry {
        model,
        state,
        bytes,
        bytes_left,
    })
}

fn devices() -> impl Strategy<Value = DeviceEntry> {
    let bytes = any::<[u64; 3]>();
    (any::<u32>(), uuids(), bytes, "[ -~]{0,64}").prop_map(|(number, uuid, bytes, name)| {
        DeviceEntry {
            number,
            uuid,
            total_bytes: bytes[0],
            free_bytes: bytes[1],
            capacity_bytes: bytes[2],
            name,
        }
    })
}

fn statuses() -> impl Strategy<Value = DeviceStatus> {
    (uuids(), any::<[u64; 4]>(), any::<[u32; 2]>()).prop_map(|(uuid, bytes, models)| DeviceStatus {
        uuid,
        capacity_bytes: bytes[0],
        created_bytes: bytes[1],
        live_bytes: bytes[2],
        held_bytes: bytes[3],
        models: models[0],
        held_models: models[1],
    })
}

fn places() -> impl Strategy<Value = PlaceEntry> {
    (ids(), any::<u32>(), any::<[u64; 2]>()).prop_map(|(object, chunk, [offset, len])| PlaceEntry {
        object,
        chunk,
        offset,
        len,
    })
}

fn handles() -> impl Strategy<Value = (u64, [u8; HANDLE_BYTES])> {
    (any::<u64>(), any::<[u8; 32]>()).prop_map(|(bytes, half)| {
        let mut handle = [0; HANDLE_BYTES];
        handle[..32].copy_from_slice(&half);
        (bytes, handle)
    })
}

fn replies() -> impl Strategy<Value = Reply> {
    let text = || "\\PC{0,100}";
    let refused = (any::<u16>(), any::<u64>(), any::<u32>(), text());
    let granted = (uuids(), any::<[u32; 2]>(), any::<u64>());
    let report = (any::<[u32; 3]>(), vec(statuses(), 1..=MAX_DEVICES));
    prop_oneof![
        (kinds(), text()).prop_map(|(memory, server)| Reply::HelloAck { memory, server }),
        vec(devices(), 1..=MAX_DEVICES).prop_map(Reply::Devices),
        any::<[u64; 2]>().prop_map(|[need_bytes, free_bytes]| Reply::Waiting {
            need_bytes,
            free_bytes
        }),
        refused.prop_map(|(reason, missing_bytes, missing_objects, text)| {
            let reason = Reason(reason);
            Reply::Refused(Refused {
                reason,
                missing_bytes,
                missing_objects,
                text,
            })
        }),
        granted.prop_map(|(device, [chunks, objects], copy_bytes)| Reply::Granted {
            device,
            chunks,
            objects,
            copy_bytes
        }),
        vec(places(), 1..40).prop_map(Reply::Places),
        vec(any::<u32>(), 1..40).prop_map(Reply::Arrived),
        Just(Reply::Complete),
        any::<[u64; 2]>().prop_map(|[prefix_bytes, bytes_per_sec]| {
            Reply::Kept(Kept {
                prefix_bytes,
                bytes_per_sec,
            })
        }),
        (any::<u16>(), text()).prop_map(|(reason, text)| Reply::Failed {
            reason: Reason(reason),
            text
        }),
        Just(Reply::Released),
        report.prop_map(|([connections, leases, waiting], devices)| {
            Reply::StatusReport(StatusReport {
                connections,
                leases,
                waiting,
                devices,
            })
        }),
        (any::<u16>(), text()).prop_map(|(code, text)| Reply::Error {
            code: ErrorCode(code),
            text
        }),
        vec(handles(), 1..=MAX_CHUNKS_PER_MESSAGE).prop_map(Reply::Handles),
        vec(any::<u64>(), 1..=MAX_CHUNKS_PER_MESSAGE).prop_map(Reply::Chunks),
        descriptions().prop_map(Reply::Description),
        vec(links(), 1..=MAX_DEVICES).prop_map(Reply::Links),
        vec(transfers(), 1..40).prop_map(Reply::Transfers),
        vec(model_entries(), 1..40).prop_map(Reply::Models),
        any::<u64>().prop_map(Reply::Progress),
    ]
}

fn header(frame: &[u8]) -> FrameHeader {
    FrameHeader::decode(*frame.first_chunk().unwrap()).unwrap()
}

/// Splits a whole frame into kind and payload, and checks its length.
fn taken_apart(frame: &[u8]) -> (u8, &[u8]) {
    let header = header(frame);
    let payload = &frame[FRAME_HEADER_BYTES..];
    assert_eq!(header.len, payload.len());
    (header.kind, payload)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_survive_the_way(request in requests()) {
        let frame = request.encode();
        let (kind, payload) = taken_apart(&frame);
        prop_assert!(!carries_descriptors(header(&frame)), "clients pass no descriptors");
        prop_assert_eq!(Request::decode(kind, payload), Ok(request));
        prop_assert!(matches!(Reply::decode(kind, payload), Err(ProtocolError::UnknownKind(_))));
    }

    #[test]
    fn replies_survive_the_way(reply in replies()) {
        let frame = reply.encode();
        let (kind, payload) = taken_apart(&frame);
        prop_assert_eq!(carries_descriptors(header(&frame)), matches!(reply, Reply::Chunks(_)));
        prop_assert_eq!(Reply::decode(kind, payload), Ok(reply));
        prop_assert!(matches!(Request::decode(kind, payload), Err(ProtocolError::UnknownKind(_))));
    }

    /// Every valid payload has exactly one meaning.
    #[test]
    fn hostile_bytes_are_errors_or_messages(kind in 0u8..80, payload in vec(any::<u8>(), 0..300)) {
        if let Ok(request) = Request::decode(kind, &payload) {
            let frame = request.encode();
            prop_assert_eq!(taken_apart(&frame), (kind, payload.as_slice()));
        }
        if let Ok(reply) = Reply::decode(kind, &payload) {
            let frame = reply.encode();
            prop_assert_eq!(taken_apart(&frame), (kind, payload.as_slice()));
        }
    }

    #[test]
    fn messages_that_are_cut_or_longer_are_errors(request in requests(), extra in 1usize..40) {
        let frame = request.encode();
        let (kind, payload) = taken_apart(&frame);
        let longer = [payload, &vec![1; extra]].concat();
        let decoded = Request::decode(kind, &longer);
        prop_assert!(decoded.is_err() || decoded != Ok(request.clone()));
        if let Some(shorter) = payload.len().checked_sub(extra) {
            prop_assert!(Request::decode(kind, &payload[..shorter]) != Ok(request));
        }
    }
}

#[test]
fn the_first_bytes_are_what_the_document_says() {
    assert_eq!(PROTOCOL.preamble(), *b"TETRGPUM\x01\0\0\0");
    assert_eq!(PROTOCOL.check_preamble(&PROTOCOL.preamble()), Ok(()));
    let mut newer = PROTOCOL.preamble();
    newer[8] = 2;
    let version = ProtocolError::Version {
        found: 2,
        expected: 1,
    };
    assert_eq!(PROTOCOL.check_preamble(&newer), Err(version));
    let daemon = PROTOCOL.check_preamble(b"TETRDAEM\x01\0\0\0");
    assert!(matches!(daemon, Err(ProtocolError::Magic { .. })));
    let hello = Request::Hello {
        memory: MemoryKind::Host,
        pid: 0x0102_0304,
    };
    assert_eq!(hello.encode(), [5, 0, 0, 0, 1, 3, 4, 3, 2, 1]);
}

/// Golden bytes of a request with every kind of field.
#[test]
fn an_acquire_is_what_the_document_says() {
    let acquire = Request::Acquire(Acquire {
        on: Some(DeviceUuid([7; 16])),
        wait_ms: 0x0a0b_0c0d,
        order: 2,
        model: ModelNamed::Objects(3),
    });
    let mut expected = vec![30, 0, 0, 0, 3, 1];
    expected.extend([7; 16]);
    expected.extend([0x0d, 0x0c, 0x0b, 0x0a, 2, 0, 0, 0, 1, 3, 0, 0, 0]);
    assert_eq!(acquire.encode(), expected);
}

/// Golden bytes of a question and of its first answer.
#[test]
fn a_description_is_what_the_document_says() {
    let describe = Request::Describe(Describe {
        device: DeviceUuid([7; 16]),
        models: vec![ModelKey(Digest([9; 32]))],
    });
    let mut expected = vec![52, 0, 0, 0, 9];
    expected.extend([7; 16]);
    expected.extend([1, 0, 0, 0]);
    expected.extend([9; 32]);
    assert_eq!(describe.encode(), expected);
    let description = Reply::Description(Description {
        device: DeviceUuid([7; 16]),
        capacity_bytes: 1,
        free_bytes: 2,
        bytes_per_second: None,
        light_bytes: 3,
        links: 4,
        transfers: 5,
        models: 6,
        switch: "s".to_owned(),
    });
    let mut expected = vec![61, 0, 0, 0, 45];
    expected.extend([7; 16]);
    for bytes in [1u64, 2, 0, 3] {
        expected.extend(bytes.to_le_bytes());
    }
    expected.extend([4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, b's']);
    assert_eq!(description.encode(), expected);
}

#[test]
fn the_longest_messages_fit_a_frame() {
    let object = ObjectRef::of(b"one");
    let place = PlaceEntry {
        object: object.id,
        chunk: 0,
        offset: 0,
        len: 3,
    };
    let device = DeviceEntry {
        number: 1,
        uuid: DeviceUuid([1; 16]),
        total_bytes: 1,
        free_bytes: 1,
        capacity_bytes: 1,
        name: "n".repeat(MAX_NAME_BYTES),
    };
    let key = ModelKey(Digest([1; 32]));
    let transfer = TransferEntry {
        model: None,
        bytes_left: 1,
    };
    let model = ModelEntry {
        model: key,
        state: ModelState::Resident,
        bytes: 1,
        bytes_left: 0,
    };
    for frame in [
        Request::Objects(vec![object; MAX_OBJECTS_PER_MESSAGE]).encode(),
        Request::Order(vec![0; MAX_NUMBERS_PER_MESSAGE]).encode(),
        Reply::Places(vec![place; MAX_PLACES_PER_MESSAGE]).encode(),
        Reply::Arrived(vec![0; MAX_NUMBERS_PER_MESSAGE]).encode(),
        Reply::Devices(vec![device; MAX_DEVICES]).encode(),
        Reply::Handles(vec![(1, [0; HANDLE_BYTES]); MAX_CHUNKS_PER_MESSAGE]).encode(),
        Request::Describe(Describe {
            device: DeviceUuid([1; 16]),
            models: vec![key; MAX_NAMED_MODELS],
        })
        .encode(),
        Reply::Transfers(vec![transfer; MAX_NAMED_MODELS + 1]).encode(),
        Reply::Models(vec![model; MAX_NAMED_MODELS]).encode(),
    ] {
        let (kind, payload) = taken_apart(&frame);
        assert!(frame.len() <= MAX_FRAME_BYTES);
        assert!(Request::decode(kind, payload).is_ok() || Reply::decode(kind, payload).is_ok());
    }
}

#[test]
fn more_than_the_most_is_an_error() {
    let object = ObjectRef::of(b"one");
    let frames = [
        Request::Objects(vec![object; MAX_OBJECTS_PER_MESSAGE + 1]).encode(),
        Request::Order(vec![0; MAX_NUMBERS_PER_MESSAGE + 1]).encode(),
        Reply::Chunks(vec![0; MAX_CHUNKS_PER_MESSAGE + 1]).encode(),
        Request::Objects(vec![]).encode(),
        Reply::Arrived(vec![]).encode(),
    ];
    for frame in frames {
        let (kind, payload) = taken_apart(&frame);
        assert!(Request::decode(kind, payload).is_err() && Reply::decode(kind, payload).is_err());
    }
    let long = Reply::Error {
        code: ErrorCode::MALFORMED,
        text: "\u{e9}".repeat(400),
    };
    let frame = long.encode();
    let (kind, payload) = taken_apart(&frame);
    let Ok(Reply::Error { text, .. }) = Reply::decode(kind, payload) else {
        panic!("an error was cut to what may be sent");
    };
    assert_eq!(text, "\u{e9}".repeat(256));
}
