//! Headers of safetensors files: objects, found by their digests (LAYOUT.md 3.8).

use tetris_store_layout::{Access, DerivedKey, Mapping, ObjectId, Store, TensorId, TrustDomain};

/// Version of the records.
const VERSION: u32 = 1;

/// The key that derives to the header with this digest, the first bytes of a safetensors file up to its tensors. So all
/// who have a manifest with this header find it. A name as short as this is always taken.
pub fn header_key(id: ObjectId) -> Option<DerivedKey> {
    DerivedKey::new(TensorId(id.0), "header", VERSION).ok()
}

/// The header with this digest, mapped, if one of these domains has recorded it. `Manifest::header_digest` is its id.
pub fn find_header(id: ObjectId, domains: &[TrustDomain], store: &Store) -> Option<Mapping> {
    let key = header_key(id)?;
    let recorded = domains.iter().filter_map(|domain| {
        let header = store.derived(&key.clone().in_domain(*domain), Access::ReadOnly);
        header.unwrap_or_else(|error| {
            tracing::debug!(%error, "header not mapped");
            None
        })
    });
    let mut true_ones = recorded.filter(|header| header.object.id == id);
    true_ones.next().map(|header| header.mapping)
}
