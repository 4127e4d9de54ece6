//! What `/inventory/objects` of a node answers.

use serde::Deserialize;
use tetris_scaler_core::InventoryFull;
use tetris_store_layout::ObjectId;

use super::error::PlanError;
use super::read::Document;
use crate::resources::{FieldProblem, parse, stored_object};

/// The version of the page that is understood.
const VERSION: u32 = 1;

/// The objects of a node's stores, as far as a plan needs them.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    version: u32,
    node: Option<String>,
    stores: Vec<Store>,
}

#[derive(Debug, Deserialize)]
struct Store {
    name: String,
    #[serde(default)]
    usable: bool,
    /// Stores of one mount share its room.
    #[serde(default)]
    mount: Option<u64>,
    #[serde(default)]
    free_bytes: u64,
    #[serde(default)]
    reclaimable_bytes: u64,
    #[serde(default)]
    objects: Vec<String>,
}

/// What a node has.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) at: String,
    pub(super) node: String,
    /// By the ids that the inventory uses.
    pub(super) objects: Vec<ObjectId>,
    /// What is free in its stores, or could be freed.
    pub(super) room_bytes: u64,
}

/// Whether a document without a kind is such a page.
pub(super) fn is_page(document: &Document) -> bool {
    document.value.get("stores").is_some()
}

pub(super) fn stored(document: Document) -> Result<Stored, PlanError> {
    let at = document.at;
    let field = |problem| PlanError::Field {
        at: at.clone(),
        problem,
    };
    let page: Page = parse(document.value).map_err(field)?;
    if page.version != VERSION {
        let problem = format!("found {}, expected {VERSION}", page.version);
        return Err(field(FieldProblem::new("version", problem)));
    }
    let room_bytes = room(&page.stores);
    let Some(node) = page.node else {
        let problem = "found null, expected the node's name; start its daemon with NODE_NAME set";
        return Err(field(FieldProblem::new("node", problem)));
    };
    let mut objects = Vec::new();
    for (index, store) in page.stores.iter().enumerate().filter(|(_, one)| one.usable) {
        for (object, id) in store.objects.iter().enumerate() {
            let parsed = id.parse::<ObjectId>().map_err(|_| {
                let name = format!("stores[{index}].objects[{object}]");
                field(FieldProblem::new(name, "expected 64 hexadecimal digits"))
            })?;
            objects.push(stored_object(&store.name, &parsed));
        }
    }
    Ok(Stored {
        at,
        node,
        objects,
        room_bytes,
    })
}

/// Each mount's room once, and what the stores' objects occupy that nobody needs.
fn room(stores: &[Store]) -> u64 {
    let mut free = std::collections::BTreeMap::new();
    for (index, store) in stores.iter().enumerate().filter(|(_, one)| one.usable) {
        let alone = u64::MAX.saturating_sub(index as u64);
        let most: &mut u64 = free.entry(store.mount.unwrap_or(alone)).or_default();
        *most = store.free_bytes.max(*most);
    }
    let reclaimable = stores.iter().map(|store| store.reclaimable_bytes);
    let all = free.into_values().chain(reclaimable);
    all.fold(0, u64::saturating_add)
}

impl Stored {
    /// Takes its objects into the inventory.
    pub(super) fn record(
        &self,
        inventory: &mut tetris_scaler_core::Inventory,
    ) -> Result<(), InventoryFull> {
        inventory.set_node(&self.node, &self.objects).map(|_| ())
    }
}
