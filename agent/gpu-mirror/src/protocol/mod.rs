//! Messages between a server of the mirror and its clients, byte by byte: `PROTOCOL.md`. Pure.
//!
//! A [`Request`] is a client's message, a [`Reply`] a server's. Both encode to whole frames and
//! decode from a frame's kind and payload. Hostile bytes become errors, and no allocation trusts a
//! length field before its bytes have arrived.

mod fields;
mod frame;
mod reply;
mod request;
mod types;

#[cfg(test)]
mod tests;

pub use frame::{
    FRAME_HEADER_BYTES, FrameHeader, MAX_FRAME_BYTES, PREAMBLE_BYTES, ProtocolError, VERSION,
    check_preamble, preamble,
};
pub use reply::{DESCRIPTORS_FROM, Reply};
pub use request::{Acquire, ModelNamed, Request};
pub use types::{
    DeviceEntry, DeviceStatus, ErrorCode, MAX_CHUNKS_PER_MESSAGE, MAX_DEVICES, MAX_MANIFESTS,
    MAX_MODEL_OBJECTS, MAX_NAME_BYTES, MAX_NUMBERS_PER_MESSAGE, MAX_OBJECTS_PER_MESSAGE,
    MAX_PLACES_PER_MESSAGE, MAX_TEXT_BYTES, PlaceEntry, Reason, Refused, StatusReport,
};
