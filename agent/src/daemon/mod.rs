//! Talking to the node's daemon over the socket in the store (LAYOUT.md 11).
//!
//! The agent asks it for room when the store is full. The daemon sees the whole node and knows its policy, so its
//! "no" holds; where no daemon answers, the agent reclaims by itself. An agent that can only read the store passes its
//! model files to the daemon, which publishes them.

mod address;
mod client;
mod connection;
mod frame;
mod ingest;
mod message;
mod room;

pub use address::Address;
pub use client::{Outcome, make_room};
pub use frame::{
    FRAME_HEADER_BYTES, FrameHeader, MAX_FRAME_BYTES, PREAMBLE_BYTES, ProtocolError, VERSION,
    check_preamble, preamble,
};
pub use ingest::{IngestOutcome, Ingested, ingest};
pub use message::{
    ErrorCode, INGEST, INGEST_PAYLOAD_BYTES, IngestReason, IngestRefusal, MAX_TEXT_BYTES, Message,
    Refusal, RefusalReason,
};
pub(crate) use room::{Answers, Patience};
