//! What a plan looks at: the stores of one node at one moment.

use std::collections::BTreeSet;

use tetris_store_layout::ObjectId;
use thiserror::Error;

use crate::RecordId;

/// All stores of one daemon at one moment. Moments are milliseconds since any fixed origin, the same
/// for all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The file systems that the stores lie on.
    pub mounts: Vec<Mount>,
    /// The stores. Their names differ.
    pub stores: Vec<StoreSnapshot>,
    /// Loads that wait for room now.
    pub requests: Vec<RoomRequest>,
}

/// A file system that holds one or more stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mount {
    /// Its size in bytes.
    pub capacity_bytes: u64,
    /// Bytes that can still be allocated.
    pub free_bytes: u64,
    /// The last plan for it was cut short on its way down to the low watermark: go on, though the high
    /// watermark may no longer be passed.
    pub draining: bool,
}

/// One store: a tenant's objects and models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreSnapshot {
    /// Its name: selects its policy and its learnt state, and breaks ties between stores.
    pub name: String,
    /// Index into [`Snapshot::mounts`].
    pub mount: usize,
    /// Its objects, in any order.
    pub objects: Vec<Object>,
    /// What wants them, in any order.
    pub models: Vec<Model>,
    /// Memory that its records occupy, in bytes. It counts in what the store takes, and no plan for objects frees it.
    pub record_bytes: u64,
}

/// An object of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// Its identifier, which breaks ties.
    pub id: ObjectId,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Memory that it occupies, in bytes: what freeing it gives back.
    pub allocated_bytes: u64,
    /// When it was published, in milliseconds.
    pub published_ms: u64,
    /// When it was last seen held, in milliseconds; 0 when it never was. Uses of its models count as
    /// well and need not be repeated here.
    pub last_use_ms: u64,
    /// Whether someone maps it.
    pub held: bool,
}

/// A manifest, or a derived record: a set of objects that are loaded together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The record.
    pub id: RecordId,
    /// Which of the store's objects it wants: indices into [`StoreSnapshot::objects`]. Objects that are
    /// not in the store are left out.
    pub objects: Vec<u32>,
    /// Length of all its objects in bytes, those that are not in the store included.
    pub total_bytes: u64,
    /// When a load used it last, in milliseconds.
    pub last_use_ms: u64,
    /// What loading all of it anew would take, in milliseconds (see [`ReloadCost`]).
    pub reload_ms: u64,
    /// Declared by something that runs on the node or is about to: in T_warm (Tetris 4).
    pub warm: bool,
}

/// A load that found no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomRequest {
    /// Index into [`Snapshot::stores`].
    pub store: usize,
    /// Bytes that it needs to be free.
    pub bytes: u64,
}

/// Estimates what loading a model anew takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadCost {
    /// What every load takes, however small, in milliseconds.
    pub fixed_ms: u64,
    /// How fast models are read, hashed and published, in bytes per second; 0 counts as 1.
    pub bytes_per_sec: u64,
}

impl ReloadCost {
    /// Milliseconds to load `bytes`.
    pub fn of(&self, bytes: u64) -> u64 {
        let reading = u128::from(bytes) * 1000 / u128::from(self.bytes_per_sec.max(1));
        self.fixed_ms
            .saturating_add(u64::try_from(reading).unwrap_or(u64::MAX))
    }
}

/// A snapshot contradicts itself. It would be unsafe to plan with: a wrong index could hide that an
/// object is warm.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A store lies on a mount that is not listed.
    #[error("store `{store}`: expected a mount below {mounts}, found {found}")]
    Mount {
        /// The store's name.
        store: String,
        /// How many mounts there are.
        mounts: usize,
        /// The index.
        found: usize,
    },
    /// Two stores have one name.
    #[error("store `{store}`: expected names that differ, found this one twice")]
    DuplicateStore {
        /// The name.
        store: String,
    },
    /// A model names an object that is not listed.
    #[error("store `{store}`, model {model}: expected objects below {objects}, found {found}")]
    Object {
        /// The store's name.
        store: String,
        /// The model.
        model: RecordId,
        /// How many objects there are.
        objects: usize,
        /// The index.
        found: u32,
    },
    /// A store has more objects than an index can name.
    #[error("store `{store}`: expected fewer than 2^32 objects, found {found}")]
    TooManyObjects {
        /// The store's name.
        store: String,
        /// How many.
        found: usize,
    },
    /// A request is for a store that is not listed.
    #[error("request for room: expected a store below {stores}, found {found}")]
    Request {
        /// How many stores there are.
        stores: usize,
        /// The index.
        found: usize,
    },
}

impl Snapshot {
    /// Checks that every index leads somewhere and names differ.
    pub fn validate(&self) -> Result<(), SnapshotError> {
        let mut names = BTreeSet::new();
        for store in &self.stores {
            store.validate(self.mounts.len())?;
            if !names.insert(store.name.as_str()) {
                let store = store.name.clone();
                return Err(SnapshotError::DuplicateStore { store });
            }
        }
        let stores = self.stores.len();
        match self.requests.iter().find(|ask| ask.store >= stores) {
            Some(ask) => Err(SnapshotError::Request {
                stores,
                found: ask.store,
            }),
            None => Ok(()),
        }
    }
}

impl StoreSnapshot {
    /// Memory that its objects and records occupy, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.objects
            .iter()
            .map(|object| object.allocated_bytes)
            .fold(self.record_bytes, u64::saturating_add)
    }

    fn validate(&self, mounts: usize) -> Result<(), SnapshotError> {
        let store = || self.name.clone();
        let objects = self.objects.len();
        if self.mount >= mounts {
            return Err(SnapshotError::Mount {
                store: store(),
                mounts,
                found: self.mount,
            });
        }
        let Ok(count) = u32::try_from(objects) else {
            return Err(SnapshotError::TooManyObjects {
                store: store(),
                found: objects,
            });
        };
        for model in &self.models {
            if let Some(&found) = model.objects.iter().find(|&&index| index >= count) {
                return Err(SnapshotError::Object {
                    store: store(),
                    model: model.id,
                    objects,
                    found,
                });
            }
        }
        Ok(())
    }
}
