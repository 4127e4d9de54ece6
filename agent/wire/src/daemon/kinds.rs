//! Kinds of messages, and the kinds that carry a descriptor.

use super::object;
use crate::FrameHeader;

pub(super) const HELLO: u8 = 1;
pub(super) const HELLO_ACK: u8 = 2;
pub(super) const MAKE_ROOM: u8 = 3;
pub(super) const ROOM_MADE: u8 = 4;
pub(super) const ROOM_REFUSED: u8 = 5;
pub(super) const ERROR: u8 = 6;
pub(super) const INGEST_DONE: u8 = 7;
pub(super) const INGEST_WAITING: u8 = 8;
pub(super) const INGEST_PROGRESS: u8 = 9;
pub(super) const INGESTED: u8 = 10;
pub(super) const INGEST_REFUSED: u8 = 11;
pub(super) const ASK_WARM: u8 = 12;
pub(super) const WARM: u8 = 13;
pub(super) const PUBLISHED: u8 = 14;
pub(super) const DOMAIN: u8 = 15;
pub(super) const TRACE: u8 = 20;
pub(super) const TRACE_KEPT: u8 = 21;
pub(super) const RECORD_DERIVED: u8 = 16;
pub(super) const RECORDED: u8 = 17;
pub(super) const TAKE_TURN: u8 = 18;
pub(super) const TURN_TAKEN: u8 = 19;
pub(super) const KEEP_MODEL: u8 = 22;
pub(super) const REPORT_MODEL: u8 = 23;
pub(super) const MODEL_NOTED: u8 = 24;
pub(super) const RANK_MODEL: u8 = 25;
pub(super) const YIELD_MODEL: u8 = 26;
pub(super) const RESTORE_MODEL: u8 = 27;
pub(super) const MODEL_RESTORED: u8 = 28;
pub(super) const INGEST: u8 = 64;
pub(super) const PUBLISH: u8 = 65;
pub(super) const ASK_DOMAIN: u8 = 66;
pub(super) const ASSEMBLE: u8 = 67;
pub(super) const SERVE_MODEL: u8 = 68;
/// Length of the payload of [`Message::Assemble`](super::Message::Assemble), in bytes.
pub(super) const ASSEMBLE_BYTES: usize = 41;
/// Length of the payload of [`Message::ServeModel`](super::Message::ServeModel), in bytes.
pub(super) const SERVE_MODEL_BYTES: usize = 8;
/// Length of the payloads of [`Message::Ingest`] and [`Message::AskDomain`], in bytes.
pub(super) const INGEST_PAYLOAD_BYTES: usize = 1;

/// Returns true for the frames that carry a descriptor: [`Ingest`](super::Message::Ingest),
/// [`Publish`](super::Message::Publish), [`AskDomain`](super::Message::AskDomain),
/// [`Assemble`](super::Message::Assemble) and [`ServeModel`](super::Message::ServeModel). A frame of another length is no such message.
pub fn carries_descriptor(header: FrameHeader) -> bool {
    matches!(
        (header.kind, header.len),
        (INGEST | ASK_DOMAIN, INGEST_PAYLOAD_BYTES)
            | (PUBLISH, object::BYTES)
            | (ASSEMBLE, ASSEMBLE_BYTES)
            | (SERVE_MODEL, SERVE_MODEL_BYTES)
    )
}
