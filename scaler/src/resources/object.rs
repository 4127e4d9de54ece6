//! Object ids that tell stores apart: equal objects of different stores take memory twice.

use tetris_store_layout::{Digest, ObjectId};

/// Returns the inventory's id for `object` in the store `store`: BLAKE3 of both names. By default a
/// node has a store per namespace, and pods share nothing with pods of another namespace's store.
pub fn stored_object(store: &str, object: &ObjectId) -> ObjectId {
    // The length separates the two names.
    let mut bytes = (store.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(store.as_bytes());
    bytes.extend_from_slice(&object.0.0);
    ObjectId(Digest::of(&bytes))
}

/// Returns an id that no store has, for the bytes of a model that its profile does not list.
/// Instances on one node share these bytes, but no inventory lists them.
pub(super) fn unlisted_object(store: &str, model: &str) -> ObjectId {
    let mut bytes = b"tetris.dev/unlisted".to_vec();
    bytes.extend_from_slice(&(store.len() as u64).to_le_bytes());
    bytes.extend_from_slice(store.as_bytes());
    bytes.extend_from_slice(model.as_bytes());
    ObjectId(Digest::of(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_do_not_share_and_names_do_not_run_into_objects() {
        let object = ObjectId::of(b"tensor");
        let ids = [
            object,
            stored_object("blue", &object),
            stored_object("green", &object),
            stored_object("", &object),
            stored_object("blue", &ObjectId::of(b"other")),
            unlisted_object("blue", "model"),
            unlisted_object("bluem", "odel"),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        assert_eq!(ids[1], stored_object("blue", &object));
    }
}
