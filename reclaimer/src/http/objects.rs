//! Objects on this node, and the room for more: inputs for the placement of models that never ran
//! here.
//!
//! ```json
//! {"version":1,"node":"node-a","stores":[
//!   {"name":"shared","id":"8f3c...","usable":true,"mount":0,"capacity_bytes":1073741824,
//!    "free_bytes":1048576,"reclaimable_bytes":4096,"truncated":false,"objects":["00c1...","77aa..."]}]}
//! ```
//!
//! `node` and a store's `id` are null when not known; `name` and `usable` are as in
//! [`inventory`](super::inventory).
//!
//! `capacity_bytes` and `free_bytes` are the store's limit and its unused part, or those of its
//! mount where they are less. `reclaimable_bytes` counts its objects without a reference that no
//! declared model contains; a load that needs the room may have them freed. Stores with one `mount`
//! share its room. The field is null, with no room, when the store cannot be used.
//!
//! With a GPU mirror, `gpus` has its devices: `uuid`, `type` (the product's name), `usable`,
//! `total_bytes`, `limit_bytes`, `capacity_bytes`, `created_bytes`, `held_bytes` and `models`
//! ([`GpuStatus`]), and in `stores` the names of stores with the identifiers of their objects in device
//! memory, as of the last pass.
//!
//! `kept` has the models that pods keep on the node ([`KeptStatus`]), if there are any, and how far they are.
//!
//! `objects` has the identifiers (`LAYOUT.md` 3.1) of the objects that can be mapped, in order, at
//! most [`MAX_OBJECTS`]; `truncated` is true if there are more. Fields may be added within a
//! version.

use serde::{Serialize, Serializer};
use tetris_store_layout::ObjectId;

use crate::report::{
    Amount, GpuStatus, KeptStatus, MountStatus, NodeStatus, ObjectState, StoreStatus,
};

/// Version of the shape. It changes when a field goes or changes its meaning.
pub const VERSION: u32 = 1;

/// Most identifiers that the page has for one store: 18 MB of text.
pub const MAX_OBJECTS: usize = 262_144;
/// Most that it has for all stores together. Stores that come later in the configuration go short
/// first.
pub const MAX_OBJECTS_OF_NODE: usize = 2 * MAX_OBJECTS;

/// The page.
#[derive(Debug, Serialize)]
pub(super) struct Objects<'a> {
    version: u32,
    node: Option<&'a str>,
    stores: Vec<StoreEntry<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    kept: &'a [KeptStatus],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<GpuEntry<'a>>,
}

#[derive(Debug, Serialize)]
struct GpuEntry<'a> {
    #[serde(flatten)]
    gpu: &'a GpuStatus,
    stores: Vec<OnGpu<'a>>,
}

/// Objects of a store on a GPU.
#[derive(Debug, Serialize)]
struct OnGpu<'a> {
    name: &'a str,
    objects: &'a [String],
}

#[derive(Debug, Serialize)]
struct StoreEntry<'a> {
    name: &'a str,
    id: Option<&'a str>,
    usable: bool,
    mount: Option<usize>,
    #[serde(flatten)]
    room: StoreRoom,
    truncated: bool,
    #[serde(serialize_with = "in_hexadecimal")]
    objects: Vec<&'a ObjectId>,
}

#[derive(Debug, Default, Serialize)]
struct StoreRoom {
    capacity_bytes: u64,
    free_bytes: u64,
    reclaimable_bytes: u64,
}

impl<'a> Objects<'a> {
    pub(super) fn of(status: &'a NodeStatus) -> Self {
        let mut left = MAX_OBJECTS_OF_NODE;
        let stores = status.stores.iter().map(|found| {
            let store = store(found, &status.mounts, left.min(MAX_OBJECTS));
            left -= store.objects.len();
            store
        });
        Self {
            version: VERSION,
            node: status.node.as_deref(),
            stores: stores.collect(),
            kept: &status.kept,
            gpus: status.gpus.iter().map(gpu).collect(),
        }
    }
}

fn gpu(gpu: &GpuStatus) -> GpuEntry<'_> {
    let stores = gpu.stores.iter().map(|store| OnGpu {
        name: &store.name,
        objects: &store.objects,
    });
    GpuEntry {
        gpu,
        stores: stores.collect(),
    }
}

fn store<'a>(store: &'a StoreStatus, mounts: &[MountStatus], most: usize) -> StoreEntry<'a> {
    let on = |mount: &MountStatus| mount.stores.contains(&store.name);
    let mount = mounts.iter().position(on);
    let objects = store.objects.iter();
    let mut objects: Vec<&ObjectId> = objects.map(|object| &object.id).collect();
    objects.sort_unstable();
    let truncated = objects.len() > most;
    objects.truncate(most);
    StoreEntry {
        name: store.asked_for_as(),
        id: store.id.as_deref(),
        usable: store.error.is_none(),
        mount,
        room: mount
            .and_then(|mount| mounts.get(mount))
            .map_or_else(StoreRoom::default, |mount| room(store, mount)),
        truncated,
        objects,
    }
}

fn room(store: &StoreStatus, mount: &MountStatus) -> StoreRoom {
    let bytes = |state| store.states.get(&state).map_or(0, |a: &Amount| a.bytes);
    let used: u64 = [ObjectState::Held, ObjectState::Warm, ObjectState::Idle]
        .map(bytes)
        .iter()
        .sum();
    let used = used.saturating_add(store.records.bytes);
    let limit = store.limit_bytes.unwrap_or(u64::MAX);
    StoreRoom {
        capacity_bytes: mount.capacity_bytes.min(limit),
        free_bytes: mount.free_bytes.min(limit.saturating_sub(used)),
        reclaimable_bytes: bytes(ObjectState::Idle),
    }
}

fn in_hexadecimal<S: Serializer>(objects: &[&ObjectId], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(objects.iter().map(|id| Hexadecimal(id)))
}

struct Hexadecimal<'a>(&'a ObjectId);

impl Serialize for Hexadecimal<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self.0)
    }
}
