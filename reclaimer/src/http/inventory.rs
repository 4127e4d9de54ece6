//! Inventory for placement: the models on this node, and the resident bytes of each.
//!
//! ```json
//! {"version":1,"node":"node-a","stores":[
//!   {"name":"shared","id":"8f3c...","usable":true,"models":[
//!     {"id":"manifest-77aa...","total_bytes":90,"resident_bytes":90,"held_bytes":0,
//!      "last_use_ms":1700000000000,"warm":false}]}]}
//! ```
//!
//! Pods ask for a store by its `name`. After a namespace was made again, two stores can have the
//! same name for a while. `node` and a store's `id` are null when not known. A store is `usable`
//! when it has no error; the entry of an unusable one may be old or empty. A model's `id` is
//! `manifest-<id>` or `derived-<id>`, as in `LAYOUT.md` 3.2 and 3.4. Lengths are in bytes;
//! `last_use_ms` is in milliseconds since the epoch. Fields may be added within a version.

use serde::Serialize;

use crate::report::{ModelStatus, NodeStatus, StoreStatus};

/// Version of the shape. It changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

/// The page, borrowed from a status.
#[derive(Debug, Serialize)]
pub(super) struct Inventory<'a> {
    version: u32,
    node: Option<&'a str>,
    stores: Vec<StoreEntry<'a>>,
}

#[derive(Debug, Serialize)]
struct StoreEntry<'a> {
    name: &'a str,
    id: Option<&'a str>,
    usable: bool,
    models: &'a [ModelStatus],
}

impl<'a> Inventory<'a> {
    pub(super) fn of(status: &'a NodeStatus) -> Self {
        Self {
            version: VERSION,
            node: status.node.as_deref(),
            stores: status.stores.iter().map(store).collect(),
        }
    }
}

fn store(store: &StoreStatus) -> StoreEntry<'_> {
    StoreEntry {
        name: store.asked_for_as(),
        id: store.id.as_deref(),
        usable: store.error.is_none(),
        models: &store.models,
    }
}
