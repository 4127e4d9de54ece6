//! An object with its digest.

use tetris_store_layout::{Mapping, ObjectRef, PublishOutcome};

/// An object that has been hashed.
#[derive(Debug)]
pub struct HashedObject {
    /// Its name.
    pub object: ObjectRef,
    /// The reference, if the object is in the store.
    pub mapping: Option<(Mapping, PublishOutcome)>,
}
