//! Objects in messages.

use tetris_store_layout::{Digest, ObjectId, ObjectRef};

use crate::{ProtocolError, Reader, Writer};

/// Length of an object's fields in bytes: identifier, CRC-32, length.
pub(super) const BYTES: usize = 32 + 4 + 8;

pub(super) fn encode(to: Writer, object: &ObjectRef) -> Writer {
    to.bytes(&object.id.0.0).u32(object.crc).u64(object.len)
}

pub(super) fn decode(from: &mut Reader<'_>) -> Result<ObjectRef, ProtocolError> {
    Ok(ObjectRef {
        id: ObjectId(Digest(from.bytes()?)),
        crc: from.u32()?,
        len: from.u64()?,
    })
}
