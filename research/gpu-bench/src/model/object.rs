//! Serialization of an object in an order: id, CRC-32 and length.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tetris_store_layout::ObjectRef;

pub(super) fn serialize<S: Serializer>(object: &ObjectRef, to: S) -> Result<S::Ok, S::Error> {
    (object.id.to_string(), object.crc, object.len).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectRef, D::Error> {
    let (id, crc, len) = <(String, u32, u64)>::deserialize(from)?;
    let id = id.parse().map_err(D::Error::custom)?;
    Ok(ObjectRef { id, crc, len })
}
