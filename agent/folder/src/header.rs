//! Headers of safetensors files: objects, found by their digests (LAYOUT.md 3.8).

use tetris_store_layout::{
    Access, DerivedKey, Mapping, ObjectId, PublishError, Published, Store, TensorId,
};

/// Version of the records.
const VERSION: u32 = 1;

/// Publishes the header of a safetensors file, its first bytes up to the tensors, so that all who have its manifest
/// find it.
///
/// # Errors
/// When the store is full or read-only.
pub fn keep_header(header: &[u8], store: &Store) -> Result<Published, PublishError> {
    let published = store.publish(header, Access::ReadOnly)?;
    // A name as short as this is always taken.
    let key = key(published.object.id);
    key.map_or(Ok(()), |key| store.record_derived(&key, published.object))?;
    Ok(published)
}

/// The header with this digest, mapped, if the store has it. `Manifest::header_digest` is its id.
pub fn find_header(id: ObjectId, store: &Store) -> Option<Mapping> {
    let header = store.derived(&key(id)?, Access::ReadOnly);
    let header = header.unwrap_or_else(|error| {
        tracing::debug!(%error, "header not mapped");
        None
    });
    header
        .filter(|header| header.object.id == id)
        .map(|header| header.mapping)
}

fn key(id: ObjectId) -> Option<DerivedKey> {
    DerivedKey::new(TensorId(id.0), "header", VERSION).ok()
}
