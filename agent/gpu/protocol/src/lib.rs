//! Messages between a server of the mirror and its clients, byte by byte: `PROTOCOL.md`. Pure.
//!
//! A [`Request`] is a client's message, a [`Reply`] a server's. Both encode to whole frames and
//! decode from a frame's kind and payload. Hostile bytes become errors, and no allocation trusts a
//! length field before its bytes have arrived.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod description;
mod model;
mod reply;
mod request;
mod types;

#[cfg(test)]
mod tests;

use tetris_wire::Protocol;

pub use description::{
    Describe, Description, LinkEntry, MAX_NAMED_MODELS, ModelEntry, ModelState, TransferEntry,
};
pub use model::{ModelError, ModelKey, ModelSpec, Part};
pub use reply::{Reply, carries_descriptors};
pub use request::{Acquire, ModelNamed, Request};
pub use types::{
    DeviceEntry, DeviceStatus, ErrorCode, Kept, MAX_CHUNKS_PER_MESSAGE, MAX_DEVICES, MAX_MANIFESTS,
    MAX_MODEL_OBJECTS, MAX_NAME_BYTES, MAX_NUMBERS_PER_MESSAGE, MAX_OBJECTS_PER_MESSAGE,
    MAX_PLACES_PER_MESSAGE, PlaceEntry, Reason, Refused, StatusReport,
};

/// The protocol's preamble.
pub const PROTOCOL: Protocol = Protocol {
    magic: *b"TETRGPUM",
    version: 1,
};
