//! Talking to the node's daemon over the socket in the store (LAYOUT.md 11).
//!
//! The agent asks it for room when the store is full. The daemon sees the whole node and knows its policy, so its
//! "no" holds; where no daemon answers, the agent reclaims by itself.

mod address;
mod client;
mod frame;
mod message;
mod room;

pub use address::Address;
pub use client::{Outcome, make_room};
pub use frame::{
    FRAME_HEADER_BYTES, FrameHeader, MAX_FRAME_BYTES, PREAMBLE_BYTES, ProtocolError, VERSION,
    check_preamble, preamble,
};
pub use message::{ErrorCode, MAX_TEXT_BYTES, Message, Refusal, RefusalReason};
pub(crate) use room::{Answers, Patience};
