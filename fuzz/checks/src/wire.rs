//! Conditions on any bytes that a socket brings. Shared by the fuzz target and the tests of the GPU
//! mirror.

use tetris_gpu_protocol::{self as gpu, Reply, Request};
use tetris_wire::{
    Decode, FRAME_HEADER_BYTES, Frame, FrameDecoder, FrameHeader, MAX_FRAME_BYTES, PREAMBLE_BYTES,
    PreambleDecoder, Protocol, ProtocolError, daemon,
};

/// The reason for a stream that ends within the preamble or a frame.
const CUT: &str = "the stream ends within a frame";

/// A side of a protocol that reads.
struct Side {
    protocol: Protocol,
    carries: fn(FrameHeader) -> bool,
    /// Decodes a message and encodes it again.
    again: fn(&Frame) -> Result<Vec<u8>, ProtocolError>,
}

const SIDES: [Side; 3] = [
    Side {
        protocol: daemon::PROTOCOL,
        carries: daemon::carries_descriptor,
        again: |frame| {
            let message = daemon::Message::decode(frame.kind, &frame.payload)?;
            assert_eq!(message.kind(), frame.kind);
            Ok(message.encode())
        },
    },
    Side {
        protocol: gpu::PROTOCOL,
        carries: tetris_wire::no_descriptors,
        again: |frame| Ok(Request::decode(frame.kind, &frame.payload)?.encode()),
    },
    Side {
        protocol: gpu::PROTOCOL,
        carries: gpu::carries_descriptors,
        again: |frame| Ok(Reply::decode(frame.kind, &frame.payload)?.encode()),
    },
];

/// Reads `input` as a stream and compares the result with a second, simpler reader. The first byte
/// selects the side, the second the number of bytes that come at a time; the stream follows.
/// Returns the number of messages, or the reason the stream is refused.
///
/// # Panics
///
/// If the readers differ, or a message has a second encoding.
pub fn check(input: &[u8]) -> Result<usize, String> {
    let Some(([side, piece], stream)) = input.split_first_chunk() else {
        return Err(CUT.to_owned());
    };
    let side = &SIDES[usize::from(*side) % SIDES.len()];
    let piece = usize::from(*piece).max(1);
    let mut at = 0;
    let preamble = read(&mut PreambleDecoder::default(), stream, &mut at, piece)?;
    assert_eq!((preamble.as_slice(), at), (&stream[..at], PREAMBLE_BYTES));
    let checked = side.protocol.check_preamble(&preamble);
    assert_eq!(checked.is_ok(), preamble == side.protocol.preamble());
    checked.map_err(|error| text(&error))?;
    let mut messages = 0;
    let mut decoder = FrameDecoder::new(side.carries);
    while at < stream.len() {
        let begin = at;
        let expected = simply(&stream[begin..]);
        let frame = read(&mut decoder, stream, &mut at, piece);
        let frame = match (frame, expected) {
            (Ok(frame), Some(expected)) => {
                assert_eq!((frame.kind, frame.payload.as_slice()), expected);
                frame
            }
            (Err(refusal), None) => return Err(refusal),
            (frame, expected) => panic!("{frame:?}, expected {expected:?}"),
        };
        assert_eq!(at - begin, FRAME_HEADER_BYTES + frame.payload.len());
        let again = (side.again)(&frame).map_err(|error| text(&error))?;
        assert!(again == stream[begin..at], "a second encoding of {frame:?}");
        messages += 1;
    }
    Ok(messages)
}

/// A stream with a right preamble and one frame of a right length: the third byte of `input` is the
/// kind, and the payload follows. Nearly every change breaks those fields otherwise.
pub fn repaired(input: &[u8]) -> Vec<u8> {
    let Some(([side, piece, kind], payload)) = input.split_first_chunk() else {
        return input.to_vec();
    };
    let protocol = SIDES[usize::from(*side) % SIDES.len()].protocol;
    let len = payload.len().min(MAX_FRAME_BYTES - FRAME_HEADER_BYTES);
    let header = FrameHeader { len, kind: *kind }.encode();
    let preamble = protocol.preamble();
    [
        &[*side, *piece],
        preamble.as_slice(),
        &header,
        &payload[..len],
    ]
    .concat()
}

/// The message of an error, which is short and printable.
fn text(error: &ProtocolError) -> String {
    let text = error.to_string();
    assert!((1..400).contains(&text.len()), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
    text
}

/// Feeds a decoder from `at` on until it has an item.
fn read<D: Decode>(
    decoder: &mut D,
    stream: &[u8],
    at: &mut usize,
    piece: usize,
) -> Result<D::Item, String> {
    let begin = *at;
    while *at < stream.len() {
        if decoder.takes_descriptors() {
            assert_eq!(
                *at - begin,
                FRAME_HEADER_BYTES,
                "not a payload's first byte"
            );
        }
        let room = decoder.room();
        assert!(!room.is_empty(), "no room and no item");
        let count = room.len().min(piece).min(stream.len() - *at);
        room[..count].copy_from_slice(&stream[*at..*at + count]);
        *at += count;
        if let Some(item) = decoder.filled(count).map_err(|error| text(&error))? {
            return Ok(item);
        }
    }
    Err(CUT.to_owned())
}

/// The first frame of `stream`, if there is a whole one of an allowed length.
fn simply(stream: &[u8]) -> Option<(u8, &[u8])> {
    let (len, rest) = stream.split_first_chunk()?;
    let (kind, rest) = rest.split_first()?;
    let len = u32::from_le_bytes(*len) as usize;
    let payload = rest.get(..len)?;
    (FRAME_HEADER_BYTES + len <= MAX_FRAME_BYTES).then_some((*kind, payload))
}
