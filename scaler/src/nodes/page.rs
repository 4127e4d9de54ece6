//! Page `/inventory/objects` of a node's daemon.

use serde::Deserialize;
use tetris_store_layout::ObjectId;

use crate::resources::stored_object;

/// Supported version of the page.
const VERSION: u32 = 1;

#[derive(Debug, Deserialize)]
struct Document {
    version: u32,
    node: Option<String>,
    stores: Vec<Store>,
}

#[derive(Debug, Deserialize)]
struct Store {
    name: String,
    usable: bool,
    capacity_bytes: Option<u64>,
    free_bytes: Option<u64>,
    #[serde(default)]
    reclaimable_bytes: u64,
    objects: Vec<ObjectText>,
}

/// An object id in the page's encoding.
#[derive(Debug)]
struct ObjectText(ObjectId);

impl<'de> Deserialize<'de> for ObjectText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// Room for tensors on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Capacity of the largest store, in bytes.
    pub capacity_bytes: u64,
    /// Free bytes of the store with the most free bytes. Reclaimable objects count as free: the
    /// daemon frees them only when a load needs the room, so a store is full most of the time.
    pub free_bytes: u64,
}

/// Tensors of a node, and the room for more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects of its usable stores, by the ids of [`stored_object`].
    pub objects: Vec<ObjectId>,
    /// Room for tensors; `None` if the daemon does not report it.
    pub room: Option<Room>,
}

impl Page {
    /// Parses the page of `node`. Unusable stores count as empty, as their data may be old.
    ///
    /// # Errors
    ///
    /// Fails if the page is malformed, of another version, or of another node.
    pub fn read(body: &[u8], node: &str) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(body).map_err(|error| format!("the page: {error}"))?;
        if document.version != VERSION {
            return Err(format!(
                "found version {} of the page, expected {VERSION}; use a scaler and a daemon of the same release",
                document.version
            ));
        }
        if let Some(other) = document.node.filter(|name| name != node) {
            return Err(format!(
                "found the page of node {other:?}, expected {node:?}"
            ));
        }
        let mut page = Self::default();
        for store in document.stores.into_iter().filter(|store| store.usable) {
            let objects = store.objects.iter();
            let ids = objects.map(|object| stored_object(&store.name, &object.0));
            page.objects.extend(ids);
            if let (Some(capacity), Some(free)) = (store.capacity_bytes, store.free_bytes) {
                let room = page.room.get_or_insert_default();
                room.capacity_bytes = room.capacity_bytes.max(capacity);
                let free = free.saturating_add(store.reclaimable_bytes).min(capacity);
                room.free_bytes = room.free_bytes.max(free);
            }
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
              {{"name":"blue","id":"x","usable":true,"capacity_bytes":10,"free_bytes":1,"reclaimable_bytes":3,"objects":["{id}"]}},
              {{"name":"green","id":null,"usable":true,"capacity_bytes":20,"free_bytes":3,"objects":["{id}"],"later":1}},
              {{"name":"broken","id":null,"usable":false,"capacity_bytes":99,"free_bytes":99,"objects":["{id}"]}}]}}"#
        );
        let page = Page::read(body.as_bytes(), "a").unwrap();
        let expected = [stored_object("blue", &id), stored_object("green", &id)];
        assert_eq!(page.objects, expected);
        let room = Room {
            capacity_bytes: 20,
            free_bytes: 4,
        };
        assert_eq!(page.room, Some(room));
        let error = Page::read(body.as_bytes(), "b").unwrap_err();
        assert!(error.contains(r#"node "a", expected "b""#), "{error}");
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
