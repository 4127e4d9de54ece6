//! Page `/inventory/objects` of a node's daemon.

use std::collections::BTreeMap;

use serde::Deserialize;
use tetris_store_layout::ObjectId;

use super::error::{MAX_SHOWN, PageError};
use super::gpu::{GpuEntry, NodeGpu, gpus};
use super::object_text::ObjectText;
use crate::resources::stored_object;
use crate::shown::shown;

/// Supported version of the page.
const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
struct Document {
    version: u32,
    node: Option<String>,
    stores: Vec<Store>,
    #[serde(default)]
    gpus: Vec<GpuEntry>,
    #[serde(default)]
    kept: Vec<KeptModel>,
}

/// A model that a pod keeps on a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KeptModel {
    /// Name of the store.
    pub store: String,
    /// Name of the model.
    pub name: String,
    /// Bytes in the store.
    pub done_bytes: u64,
    /// Bytes of all files; 0 before they are known.
    pub total_bytes: u64,
    /// Bytes fetched per second of late.
    pub bytes_per_second: u64,
}

/// Most models read of a node.
const KEPT: usize = 256;

#[derive(Debug, Deserialize)]
struct Store {
    name: String,
    usable: bool,
    /// Number of the store's mount. Stores of one mount share its room.
    mount: Option<usize>,
    capacity_bytes: Option<u64>,
    free_bytes: Option<u64>,
    #[serde(default)]
    reclaimable_bytes: u64,
    objects: Vec<ObjectText>,
}

/// Room for tensors on a node.
///
/// Reclaimable objects count as free: the daemon frees them only when a load needs the room, so a store
/// is full most of the time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Room {
    /// Free bytes of all mounts together.
    pub free_bytes: u64,
    /// Free bytes of single stores, by name. Stores of one mount share them.
    pub stores: BTreeMap<String, u64>,
}

/// Room of a mount: that of its stores together.
#[derive(Debug, Default)]
struct MountRoom {
    capacity_bytes: u64,
    free_bytes: u64,
    reclaimable_bytes: u64,
}

/// Tensors of a node, and the room for more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects of its usable stores, by the ids of [`stored_object`].
    pub objects: Vec<ObjectId>,
    /// Room for tensors; `None` if the daemon does not report it.
    pub room: Option<Room>,
    /// Usable GPUs with the daemon's GPU mirror.
    pub gpus: Vec<NodeGpu>,
    /// Models that pods keep there, at most 256.
    pub kept: Vec<KeptModel>,
}

impl Page {
    /// Parses the page of `node`. Unusable stores count as empty, as their data may be old.
    ///
    /// # Errors
    ///
    /// Fails if the page is malformed, of another version, or of another node.
    pub fn read(body: &[u8], node: &str) -> Result<Self, PageError> {
        let document: Document = serde_json::from_slice(body)
            .map_err(|error| PageError::Field(shown(&error.to_string(), MAX_SHOWN)))?;
        if document.version != VERSION {
            return Err(PageError::Version {
                found: document.version,
                expected: VERSION,
            });
        }
        if let Some(other) = document.node.filter(|name| name != node) {
            return Err(PageError::Node {
                found: shown(&other, MAX_SHOWN),
                expected: node.to_owned(),
            });
        }
        let mut page = Self {
            gpus: gpus(document.gpus)?,
            kept: document.kept.into_iter().take(KEPT).collect(),
            ..Self::default()
        };
        let mut mounts: BTreeMap<Option<usize>, MountRoom> = BTreeMap::new();
        for store in document.stores.into_iter().filter(|store| store.usable) {
            let objects = store.objects.iter();
            let ids = objects.map(|object| stored_object(&store.name, &object.0));
            page.objects.extend(ids);
            if let (Some(capacity), Some(free)) = (store.capacity_bytes, store.free_bytes) {
                let mount = mounts.entry(store.mount).or_default();
                mount.capacity_bytes = mount.capacity_bytes.max(capacity);
                mount.free_bytes = mount.free_bytes.max(free);
                let reclaimable = store.reclaimable_bytes;
                mount.reclaimable_bytes = mount.reclaimable_bytes.saturating_add(reclaimable);
                let usable = free.saturating_add(reclaimable).min(capacity);
                let stores = &mut page.room.get_or_insert_default().stores;
                let known = stores.entry(store.name).or_default();
                *known = usable.max(*known);
            }
        }
        if let Some(room) = &mut page.room {
            let free = mounts.values().map(|mount| {
                let free = mount.free_bytes.saturating_add(mount.reclaimable_bytes);
                free.min(mount.capacity_bytes)
            });
            room.free_bytes = free.fold(0, u64::saturating_add);
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_usable_stores_are_named_by_store() {
        let id = ObjectId::of(b"tensor");
        let body = format!(
            r#"{{"version":1,"node":"a","stores":[
              {{"name":"blue","id":"x","usable":true,"mount":0,"capacity_bytes":10,"free_bytes":1,"reclaimable_bytes":3,"objects":["{id}"]}},
              {{"name":"green","id":null,"usable":true,"mount":0,"capacity_bytes":20,"free_bytes":3,"reclaimable_bytes":9,"objects":["{id}"],"later":1}},
              {{"name":"broken","id":null,"usable":false,"capacity_bytes":99,"free_bytes":99,"objects":["{id}"]}}]}}"#
        );
        let page = Page::read(body.as_bytes(), "a").unwrap();
        let expected = [stored_object("blue", &id), stored_object("green", &id)];
        assert_eq!(page.objects, expected);
        let stores = [("blue".to_owned(), 4), ("green".to_owned(), 12)];
        let room = Room {
            free_bytes: 15,
            stores: stores.into(),
        };
        assert_eq!(page.room, Some(room));
        let apart = body.replacen("\"mount\":0", "\"mount\":1", 1);
        let page = Page::read(apart.as_bytes(), "a").unwrap();
        assert_eq!(page.room.unwrap().free_bytes, 16, "two mounts");
        let error = Page::read(body.as_bytes(), "b").unwrap_err().to_string();
        assert!(error.contains(r#"node "a", expected "b""#), "{error}");
    }

    #[test]
    fn gpus_have_what_the_mirror_leaves_and_what_is_there() {
        let id = ObjectId::of(b"tensor");
        let gpu = format!(
            r#"{{"uuid":"GPU-1","type":"Tesla T4","usable":true,"total_bytes":100,"limit_bytes":60,"capacity_bytes":50,"held_bytes":30,
              "stores":[{{"name":"blue","objects":["{id}"]}}],"later":1}}"#
        );
        let body = format!(
            r#"{{"version":1,"node":"a","stores":[],"gpus":[{gpu},{}]}}"#,
            gpu.replace("true", "false")
        );
        let page = Page::read(body.as_bytes(), "a").unwrap();
        let [gpu] = page.gpus.as_slice() else {
            panic!("{:?}", page.gpus);
        };
        assert_eq!((gpu.kind.as_str(), gpu.own_bytes), ("Tesla T4", 40));
        // Others hold 30 bytes, of which 20 are an instance's own.
        let id = stored_object("blue", &id);
        assert_eq!(gpu.view(None).tensor_bytes, 20);
        assert_eq!(gpu.view(Some(&[(id, 20)].into())).tensor_bytes, 40);
        let unnamed = body.replace("Tesla T4", "");
        assert!(Page::read(unnamed.as_bytes(), "a").is_err());
        let many = vec![
            r#"{"uuid":"","type":"T4","usable":true,"total_bytes":0,"limit_bytes":0,"capacity_bytes":0,"held_bytes":0}"#;
            65
        ];
        let many = format!(
            r#"{{"version":1,"node":"a","stores":[],"gpus":[{}]}}"#,
            many.join(",")
        );
        let error = Page::read(many.as_bytes(), "a").unwrap_err().to_string();
        assert!(error.contains("found 65 GPUs"), "{error}");
    }

    #[test]
    fn pages_that_are_none_are_refused() {
        for body in [
            "",
            "[]",
            r#"{"version":2,"node":"a","stores":[]}"#,
            r#"{"version":1,"node":"a"}"#,
            r#"{"version":1,"node":"a","stores":[{"name":"s","usable":true,"objects":["7"]}]}"#,
            r#"{"version":1,"node":"a","stores":[{"name":"s","usable":true,"free_bytes":-1,"objects":[]}]}"#,
        ] {
            assert!(Page::read(body.as_bytes(), "a").is_err(), "{body}");
        }
    }
}
