//! Models that pods keep on the node.

use serde::Serialize;

/// A model that a pod keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptStatus {
    /// Name of the store, by which pods ask for it.
    pub store: String,
    /// Name of the model.
    pub name: String,
    /// `pulling`, `present` or `failed`.
    pub state: &'static str,
    /// Bytes in the store.
    pub done_bytes: u64,
    /// Bytes of all files; 0 before they are known.
    pub total_bytes: u64,
    /// Bytes fetched per second of late.
    pub bytes_per_second: u64,
}
