//! Snapshots: the stores of one node at one moment, the input of a plan.

use std::collections::BTreeSet;

use tetris_store_layout::ObjectId;
use thiserror::Error;

use crate::RecordId;
use crate::space::Space;

/// All stores of one daemon at one moment. Times are in milliseconds since a common origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// File systems of the stores.
    pub mounts: Vec<MountSnapshot>,
    /// The stores, with unique names.
    pub stores: Vec<StoreSnapshot>,
    /// Loads waiting for room.
    pub requests: Vec<RoomRequest>,
}

/// A file system that holds one or more stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MountSnapshot {
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Number of bytes that can still be allocated.
    pub free_bytes: u64,
    /// True if the last plan for this mount was cut short above the low watermark. The next plan
    /// then continues, even below the high watermark.
    pub draining: bool,
    /// Number of inodes; 0 without a limit.
    pub inodes: u64,
    /// Number of inodes that can still be made.
    pub free_inodes: u64,
    /// Number of namespaces that may still arrive, and whose guarantees are kept back.
    pub arrivals: u32,
}

impl MountSnapshot {
    /// Its size.
    pub(crate) fn capacity(&self) -> Space {
        Space {
            bytes: self.capacity_bytes,
            inodes: self.inodes,
        }
    }

    /// Free room; endless inodes where there is no limit of them.
    pub fn free(&self) -> Space {
        Space {
            bytes: self.free_bytes,
            inodes: if self.inodes == 0 {
                u64::MAX
            } else {
                self.free_inodes
            },
        }
    }
}

/// One store: a tenant's objects and models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreSnapshot {
    /// Its name, which selects its policy and its learned state, and breaks ties between stores.
    pub name: String,
    /// The namespace whose own store it is. `None` for a store of the configuration, which has no
    /// limits by default.
    pub namespace: Option<String>,
    /// Index into [`Snapshot::mounts`].
    pub mount: usize,
    /// Its objects, in any order.
    pub objects: Vec<ObjectSnapshot>,
    /// Its models, in any order.
    pub models: Vec<ModelSnapshot>,
    /// Memory that its records occupy, in bytes. It counts in the store's usage, and no plan for
    /// objects frees it.
    pub record_bytes: u64,
    /// Number of its inodes besides those of objects: records, hints and folders.
    pub other_inodes: u64,
}

/// An object of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectSnapshot {
    /// Its identifier, which breaks ties.
    pub id: ObjectId,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Memory that it occupies, in bytes; freeing the object releases it.
    pub allocated_bytes: u64,
    /// Time of its publication, in milliseconds.
    pub published_ms: u64,
    /// Time at which it was last seen held, in milliseconds; 0 if never. Uses of its models count
    /// too and need not be repeated here.
    pub last_use_ms: u64,
    /// True if a process maps it.
    pub held: bool,
}

/// A manifest, or a derived record: a set of objects loaded together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSnapshot {
    /// The record.
    pub id: RecordId,
    /// Its objects in the store, as indices into [`StoreSnapshot::objects`].
    pub objects: Vec<u32>,
    /// Length of all its objects in bytes, including those that are not in the store.
    pub total_bytes: u64,
    /// Time of its last use by a load, in milliseconds.
    pub last_use_ms: u64,
    /// Cost of loading the whole model anew, in milliseconds (see [`ReloadCost`]).
    pub reload_ms: u64,
    /// True if a process on the node, or one about to start, declares the model: it is in T_warm
    /// (Tetris 4).
    pub warm: bool,
}

/// A load that found no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RoomRequest {
    /// Index into [`Snapshot::stores`].
    pub store: usize,
    /// Number of free bytes that it needs.
    pub bytes: u64,
    /// Number of inodes that it needs.
    pub inodes: u64,
}

/// Estimate of the cost of loading a model anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReloadCost {
    /// Fixed cost of every load, in milliseconds.
    pub fixed_ms: u64,
    /// Rate of reading, hashing and publishing models, in bytes per second; 0 counts as 1.
    pub bytes_per_sec: u64,
}

impl ReloadCost {
    /// Cost of loading `bytes`, in milliseconds.
    pub fn of(&self, bytes: u64) -> u64 {
        let reading = u128::from(bytes) * 1000 / u128::from(self.bytes_per_sec.max(1));
        self.fixed_ms
            .saturating_add(u64::try_from(reading).unwrap_or(u64::MAX))
    }
}

/// The reason a snapshot is contradictory. A plan from it would be unsafe: a wrong index could hide
/// that an object is warm.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A store refers to a mount that is not listed.
    #[error("store `{store}`: expected a mount below {mounts}, found {found}")]
    Mount {
        /// The store's name.
        store: String,
        /// Number of mounts.
        mounts: usize,
        /// The index.
        found: usize,
    },
    /// Two stores have the same name.
    #[error("store `{store}`: expected names that differ, found this one twice")]
    DuplicateStore {
        /// The name.
        store: String,
    },
    /// A model refers to an object that is not listed.
    #[error("store `{store}`, model {model}: expected objects below {objects}, found {found}")]
    Object {
        /// The store's name.
        store: String,
        /// The model.
        model: RecordId,
        /// Number of objects.
        objects: usize,
        /// The index.
        found: u32,
    },
    /// A store has more objects than an index can address.
    #[error("store `{store}`: expected fewer than 2^32 objects, found {found}")]
    TooManyObjects {
        /// The store's name.
        store: String,
        /// Number of objects.
        found: usize,
    },
    /// A request refers to a store that is not listed.
    #[error("request for room: expected a store below {stores}, found {found}")]
    Request {
        /// Number of stores.
        stores: usize,
        /// The index.
        found: usize,
    },
}

impl Snapshot {
    /// Checks that every index is valid and names are unique.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] with the first contradiction.
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

    /// Memory and inodes that its objects, records and folders take.
    pub fn used(&self) -> Space {
        Space {
            bytes: self.used_bytes(),
            inodes: self.other_inodes.saturating_add(self.objects.len() as u64),
        }
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
