//! Counts of holders, for people and metrics: from `/proc/locks`, apart from passes.

use std::collections::HashMap;

use serde::Serialize;
use tetris_store_layout::{Holders, ObjectEntry, ObjectId};

use super::{NodeStatus, StoreStatus};

/// State of the counts of holders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HolderCounts {
    /// The daemon has not counted yet; the numbers are 0.
    #[default]
    NotYet,
    /// All locks of the node were counted.
    Complete,
    /// The node has more locks than are read ([`Holders::MAX_LINES`]): the numbers are the least that they can be.
    Incomplete,
}

/// An object of a store, as far as its holders are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredObject {
    /// Its identifier.
    pub id: ObjectId,
    /// Its inode number.
    pub inode: u64,
    /// Memory that it occupies, in bytes.
    pub allocated_bytes: u64,
}

impl From<&ObjectEntry> for StoredObject {
    fn from(entry: &ObjectEntry) -> Self {
        Self {
            id: entry.object.id,
            inode: entry.inode,
            allocated_bytes: entry.allocated,
        }
    }
}

impl NodeStatus {
    /// Counts the holders of each store's objects.
    pub fn count_holders(&mut self, holders: &Holders) {
        self.holder_counts = if holders.is_complete() {
            HolderCounts::Complete
        } else {
            HolderCounts::Incomplete
        };
        for store in &mut self.stores {
            store.count_holders(holders);
        }
    }

    /// Takes over the counts of an earlier status, until they are counted again.
    pub fn keep_holder_counts(&mut self, earlier: &Self) {
        self.holder_counts = earlier.holder_counts;
        let earlier = earlier.stores.iter();
        let earlier: HashMap<_, _> = earlier.map(|store| (store.id.as_ref(), store)).collect();
        for store in self.stores.iter_mut().filter(|store| store.id.is_some()) {
            if let Some(before) = earlier.get(&store.id.as_ref()) {
                store.holders = before.holders;
                store.saved_bytes = before.saved_bytes;
                store.sharing_factor = before.sharing_factor;
            }
        }
    }
}

impl StoreStatus {
    fn count_holders(&mut self, holders: &Holders) {
        let (mut all, mut held_bytes, mut mapped_bytes) = (0_u64, 0_u64, 0_u64);
        for object in &*self.objects {
            let count = holders.of_file(self.device, object.inode);
            if count > 0 {
                all = all.saturating_add(count);
                held_bytes = held_bytes.saturating_add(object.allocated_bytes);
                let mapped = object.allocated_bytes.saturating_mul(count);
                mapped_bytes = mapped_bytes.saturating_add(mapped);
            }
        }
        self.holders = all;
        self.saved_bytes = mapped_bytes.saturating_sub(held_bytes);
        self.sharing_factor = if held_bytes == 0 {
            1.0
        } else {
            mapped_bytes as f64 / held_bytes as f64
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tetris_store_layout::{Access, CreateOptions, Store};

    use super::*;

    fn status(stores: Vec<StoreStatus>) -> NodeStatus {
        NodeStatus {
            node: None,
            version: "",
            started_ms: 0,
            observed_ms: 0,
            dry_run: false,
            declarations: crate::keep_warm::Freshness::NoCluster,
            declaring_pods: 0,
            volumes: None,
            processes: Vec::new(),
            holder_counts: HolderCounts::NotYet,
            kept: Vec::new(),
            mounts: Vec::new(),
            stores,
            gpus: Vec::new(),
            shortfalls: Vec::new(),
        }
    }

    #[test]
    fn a_later_status_keeps_the_counts_of_the_same_stores_until_it_is_counted() {
        let store = |id: Option<&str>| StoreStatus {
            id: id.map(str::to_owned),
            sharing_factor: 1.0,
            ..StoreStatus::default()
        };
        let mut earlier = status(vec![store(Some("1")), store(None), store(Some("2"))]);
        for (holders, store) in (5..).zip(&mut earlier.stores) {
            store.holders = holders;
            store.saved_bytes = 10 * holders;
        }
        earlier.holder_counts = HolderCounts::Incomplete;
        let mut later = status(vec![store(Some("2")), store(None), store(Some("3"))]);
        later.keep_holder_counts(&earlier);
        assert_eq!(later.holder_counts, HolderCounts::Incomplete);
        let counts = later.stores.iter();
        let counts: Vec<_> = counts
            .map(|store| (store.holders, store.saved_bytes))
            .collect();
        assert_eq!(counts, [(7, 70), (0, 0), (0, 0)]);
    }

    #[test]
    fn without_locks_nothing_is_shared_and_a_list_that_was_not_read_is_incomplete() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let published = store.publish(b"held", Access::ReadOnly).unwrap();
        let objects = store.objects().unwrap().objects;
        let mut status = status(vec![StoreStatus {
            device: store.device(),
            objects: objects.iter().map(StoredObject::from).collect::<Arc<_>>(),
            ..StoreStatus::default()
        }]);
        status.count_holders(&Holders::default());
        assert_eq!(status.holder_counts, HolderCounts::Incomplete);
        assert_eq!(status.stores[0].holders, 0);
        assert!((status.stores[0].sharing_factor - 1.0).abs() < 1e-9);
        // Other tests take and drop locks, by which one look may be wrong.
        let counted = (0..1_000).any(|_| {
            status.count_holders(&Holders::read().unwrap());
            status.stores[0].holders == 1
        });
        assert!(counted, "{:?}", status.stores[0]);
        drop(published);
    }
}
