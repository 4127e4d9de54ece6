//! Reclaim policies of the tensor store: a plan of the objects to free.
//!
//! Pure and deterministic: no I/O, no clock, no threads. A daemon observes ([`Snapshot`]), calls
//! [`plan`], carries out the actions through the store's reclaim protocol, and reports them to the
//! [`State`]. The protocol decides in the end: it never frees a mapped object (LAYOUT.md 5.3).
//!
//! **Guarantees.** A plan never contains an object that the snapshot shows as held or as part of a
//! model declared warm. Nothing within its keep-alive window is freed, except for a waiting load.
//! The need of one store never takes another below its guarantee. The plan does not depend on the
//! order of stores and objects in the snapshot. If one store requests room, carrying out a plan
//! leaves nothing for the next one at the same moment, and a larger request frees a superset. The
//! room that guarantees still need stays free ([`MountShares`]).
//!
//! Records count in a store's usage, and are kept within their own limits
//! ([`records_to_remove`]).
//!
//! **Caveats.** Bytes are counted as the file system does, in pages. A prefix of the policy's order
//! is freed, so that more need frees a superset; another set with less excess may exist. If stores
//! have limits, a larger request may spare another store's object, because the requesting store
//! must give more itself. A lack of inodes is met after a lack of bytes. If several stores request more than there is, the room goes to the load
//! that takes it first.
//!
//! ```
//! use tetris_reclaimer_core::{MountSnapshot, ObjectSnapshot, Policy, Reason, RoomRequest, Snapshot, State, StoreSnapshot, plan};
//! use tetris_store_layout::ObjectId;
//!
//! let object = |text: &str, last_use_ms, held| ObjectSnapshot {
//!     id: ObjectId::of(text.as_bytes()),
//!     len_bytes: 4096,
//!     allocated_bytes: 4096,
//!     published_ms: 0,
//!     last_use_ms,
//!     held,
//! };
//! let store = StoreSnapshot {
//!     name: "default".to_owned(),
//!     mount: 0,
//!     objects: vec![object("old", 10, false), object("held", 5, true), object("new", 20, false)],
//!     ..StoreSnapshot::default()
//! };
//! let snapshot = Snapshot {
//!     mounts: vec![MountSnapshot { capacity_bytes: 16_384, free_bytes: 4096, ..MountSnapshot::default() }],
//!     stores: vec![store],
//!     requests: vec![RoomRequest { store: 0, bytes: 8192, inodes: 0 }],
//! };
//! let plan = plan(&snapshot, &Policy::default(), &State::default(), 30, 1000)?;
//! assert_eq!(plan.actions.len(), 1);
//! assert_eq!(plan.actions[0].id, ObjectId::of(b"old"));
//! assert_eq!(plan.actions[0].reason, Reason::Pressure);
//! # Ok::<(), tetris_reclaimer_core::SnapshotError>(())
//! ```

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod candidates;
mod clock;
mod config;
mod facts;
mod histogram;
mod order;
mod plan;
mod planner;
mod record_id;
mod records;
mod share;
mod snapshot;
mod space;
mod state;

pub use clock::Clock;
pub use config::{
    DEFAULT_RECORD_BYTES, Expiry, LearnedKeepAlive, Order, Policy, PolicyConfig, PolicyError,
    StorePolicy,
};
pub use histogram::{BINS, Basis, Histogram, Window};
pub use plan::{Action, Goal, KeptBytes, ModelChange, Plan, Reason, Shortfall};
pub use planner::plan;
pub use record_id::{ParseRecordIdError, RecordId};
pub use records::{RecordFile, RecordName, record_use, records_to_remove};
pub use share::{
    LEAST_NAMESPACE_GUARANTEED_BYTES, MissingRoom, MountShares, NAMESPACE_GUARANTEED_PERCENT,
    NAMESPACE_LIMIT_PERCENT, Share, StoreDemand,
};
pub use snapshot::{
    ModelSnapshot, MountSnapshot, ObjectSnapshot, ReloadCost, RoomRequest, Snapshot, SnapshotError,
    StoreSnapshot,
};
pub use space::Space;
pub use state::{DecodeStateError, Event, ModelState, State, StoreState};
