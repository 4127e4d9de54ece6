//! Reports of the daemon: the state of the stores, and the results of each pass. Metrics, status
//! and logs read them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::uuid::split_uuid;
use serde::{Deserialize, Serialize};
use tetris_reclaimer_core::Reason;

mod gpu;
mod holder_counts;
mod kept;
mod pages;
mod process;
pub mod process_report;
mod scrubbed;
mod shortfall;

pub use self::gpu::{GpuStatus, GpuStoreStatus};
pub use self::holder_counts::{HolderCounts, StoredObject};
pub use self::kept::KeptStatus;
pub use self::pages::{PagesStatus, SmallPagesStatus};
pub use self::process::ProcessStatus;
pub use self::scrubbed::{ScrubResult, Scrubbed};
pub use self::shortfall::{Blocker, ShortfallStatus};

/// State of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectState {
    /// It is mapped.
    Held,
    /// It is not mapped, and a model declared warm contains it.
    Warm,
    /// It is not mapped, and may be freed.
    Idle,
    /// It failed verification and is quarantined.
    Quarantined,
}

impl ObjectState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Held, Self::Warm, Self::Idle, Self::Quarantined];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Warm => "warm",
            Self::Idle => "idle",
            Self::Quarantined => "quarantined",
        }
    }
}

/// Objects and the memory that they occupy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Number of objects.
    pub objects: u64,
    /// Memory that they occupy, in bytes.
    pub bytes: u64,
}

/// A file system with stores on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountStatus {
    /// The stores on it, by name.
    pub stores: Vec<String>,
    /// Its size in bytes.
    pub capacity_bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Number of files that it can hold; 0 without a limit.
    pub inodes: u64,
    /// Number of further files that it can hold.
    pub inodes_free: u64,
    /// Number of namespaces that may still arrive, for whose guarantees room is kept back.
    pub arrivals: u32,
    /// The pages that files get on it; none as long as nothing was there to be looked at, and
    /// nothing could be written.
    pub pages: Option<PagesStatus>,
}

/// A manifest or derived record of a store, and how much of it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelStatus {
    /// `manifest-<id>` or `derived-<id>`.
    pub id: String,
    /// Length of all its objects, in bytes.
    pub total_bytes: u64,
    /// Length of those that are in the store.
    pub resident_bytes: u64,
    /// Length of the mapped ones.
    pub held_bytes: u64,
    /// Time of the last use by a load, in milliseconds since the epoch.
    pub last_use_ms: u64,
    /// True if it is declared warm.
    pub warm: bool,
}

/// Something in a store's folder that is not the store's: reported, never touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForeignStatus {
    /// Its path; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The reason it does not belong there.
    pub reason: String,
}

/// A store's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RecordStatus {
    /// Memory that they occupy, in bytes. It counts in the store's usage.
    pub bytes: u64,
    /// Number of records.
    pub files: u64,
    /// Bytes that they are kept to.
    pub limit_bytes: u64,
    /// Limit of their number.
    pub limit_files: u64,
    /// Number of those whose objects the daemon has no memory to follow: their objects are freed by
    /// their own times.
    pub not_followed: u64,
    /// Number of those that were quarantined, since starts of the daemon ended while they read the store.
    pub quarantined: u64,
}

/// Volumes that pods have of their stores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Number of idmapped ones: no user of a container owns a file there.
    pub idmapped: u64,
    /// Number of others: of pods with their own users, of earlier daemons, or all.
    pub plain: u64,
    /// The reason that new volumes are not idmapped; none where they are.
    pub plain_because: Option<String>,
}

/// One store.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StoreStatus {
    /// Its name in the configuration; the name and the unique identifier of the namespace whose own
    /// it is.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its random identity, in hexadecimal; absent when it cannot be opened.
    pub id: Option<String>,
    /// The reason the store cannot be used now.
    pub error: Option<String>,
    /// Number of its inodes: objects, records, hints and folders.
    pub inodes: u64,
    /// Its limit in bytes; `None` if only its mount bounds it.
    pub limit_bytes: Option<u64>,
    /// Its limit of inodes; `None` if only its mount bounds it.
    pub limit_inodes: Option<u64>,
    /// Bytes that it can have at any time.
    pub guaranteed_bytes: u64,
    /// Inodes that it can have at any time.
    pub guaranteed_inodes: u64,
    /// Usage and limits of its manifests, identities and derived records.
    pub records: RecordStatus,
    /// Objects by state.
    pub states: BTreeMap<ObjectState, Amount>,
    /// Major and minor number of the device that it lies on.
    #[serde(skip)]
    pub device: (u64, u64),
    /// Its objects without quarantined ones, in any order. Statuses of passes without a change
    /// share the list.
    #[serde(skip)]
    pub objects: Arc<[StoredObject]>,
    /// Locks that mappings hold, over all objects. This and the next two are as complete as
    /// [`NodeStatus::holder_counts`] returns.
    pub holders: u64,
    /// Memory that private copies would occupy beyond the store's, in bytes: for each held
    /// object, its memory times the holders beyond the first.
    pub saved_bytes: u64,
    /// Holders per held object, weighted by memory: the mean number of mappings of a byte in use;
    /// 1 without sharing.
    pub sharing_factor: f64,
    /// Manifests and derived records.
    pub models: Vec<ModelStatus>,
    /// Entries that do not belong there.
    pub foreign: Vec<ForeignStatus>,
}

impl StoreStatus {
    /// The name by which pods ask for the store: without the unique identifier of the namespace
    /// whose own it is.
    pub fn asked_for_as(&self) -> &str {
        split_uuid(&self.name).0
    }
}

/// The state of the node at the last pass; none before the first.
pub type LatestStatus = tokio::sync::watch::Receiver<Option<Arc<NodeStatus>>>;

/// The node at the end of a pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeStatus {
    /// The node's name, if it has one.
    pub node: Option<String>,
    /// Version of the daemon.
    pub version: &'static str,
    /// Start of the daemon, in milliseconds since the epoch.
    pub started_ms: u64,
    /// End of the pass, in milliseconds since the epoch.
    pub observed_ms: u64,
    /// Nothing is freed, only planned.
    pub dry_run: bool,
    /// Trust in the declarations of pods; see [`Freshness`](crate::keep_warm::Freshness).
    pub declarations: crate::keep_warm::Freshness,
    /// Pods that declare models.
    pub declaring_pods: u64,
    /// Volumes of pods; none without the CSI driver.
    pub volumes: Option<VolumeStatus>,
    /// Processes of the daemon; none where it is one process.
    pub processes: Vec<ProcessStatus>,
    /// State of the counts of holders.
    pub holder_counts: HolderCounts,
    /// File systems.
    pub mounts: Vec<MountStatus>,
    /// Stores.
    pub stores: Vec<StoreStatus>,
    /// Models that pods keep here, at most 256.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptStatus>,
    /// GPUs of the GPU mirror.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuStatus>,
    /// Goals that were missed.
    pub shortfalls: Vec<ShortfallStatus>,
}

/// The reason for a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// The daemon started.
    Start,
    /// It was time for one.
    Interval,
    /// Something was published or loaded.
    Event,
    /// A load waits for room.
    Request,
    /// The high watermark was passed.
    Watermark,
    /// The configuration or the declarations changed.
    Change,
}

impl Trigger {
    /// All triggers.
    pub const ALL: [Self; 6] = [
        Self::Start,
        Self::Interval,
        Self::Event,
        Self::Request,
        Self::Watermark,
        Self::Change,
    ];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Interval => "interval",
            Self::Event => "event",
            Self::Request => "request",
            Self::Watermark => "watermark",
            Self::Change => "change",
        }
    }
}

/// Classes of errors, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// A store could not be opened or is gone.
    Store,
    /// A folder could not be listed.
    List,
    /// An object could not be asked who holds it, or `/proc/locks` could not be read.
    Locks,
    /// A record could not be read, or is damaged.
    Record,
    /// An object could not be freed.
    Reclaim,
    /// Learned state could not be kept or read.
    State,
    /// An object could not be checked.
    Scrub,
    /// A request for room was malformed, or its client had no permission.
    Request,
    /// The API server could not be watched.
    Kubernetes,
    /// The tmpfs of the stores is not as configured.
    Mount,
    /// Pods get no volumes: the CSI services do not run, or the kubelet refused them.
    Csi,
}

impl ErrorClass {
    /// All classes.
    pub const ALL: [Self; 11] = [
        Self::Store,
        Self::List,
        Self::Locks,
        Self::Record,
        Self::Reclaim,
        Self::State,
        Self::Scrub,
        Self::Request,
        Self::Kubernetes,
        Self::Mount,
        Self::Csi,
    ];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::List => "list",
            Self::Locks => "locks",
            Self::Record => "record",
            Self::Reclaim => "reclaim",
            Self::State => "state",
            Self::Scrub => "scrub",
            Self::Request => "request",
            Self::Kubernetes => "kubernetes",
            Self::Mount => "mount",
            Self::Csi => "csi",
        }
    }
}

/// Loads of a store's models since the last pass, as far as its records show them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loads {
    /// Loads of models that were in the store.
    pub hits: u64,
    /// Bytes that they did not have to read, hash and publish.
    pub hit_bytes: u64,
    /// Models that came into the store, or came back.
    pub misses: u64,
    /// Bytes that were published.
    pub missed_bytes: u64,
}

impl Loads {
    /// Counts further loads.
    pub fn add(&mut self, more: Self) {
        self.hits += more.hits;
        self.hit_bytes += more.hit_bytes;
        self.misses += more.misses;
        self.missed_bytes += more.missed_bytes;
    }
}

/// Results of a pass in one store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorePass {
    /// The store's name.
    pub store: String,
    /// Freed objects by reason; in a dry run, those that would be freed.
    pub freed: BTreeMap<Reason, Amount>,
    /// Objects planned to be freed and turned out to be mapped: the protocol kept them.
    pub kept_by_lock: u64,
    /// Records removed because their objects are gone, or to stay within the store's limits.
    pub records_removed: u64,
    /// Loads seen.
    pub loads: Loads,
}

/// Results of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassReport {
    /// The reason for it.
    pub trigger: Trigger,
    /// Its duration.
    pub duration: Duration,
    /// By store.
    pub stores: Vec<StorePass>,
    /// Errors by class and store; no store where none is concerned.
    pub errors: Vec<(ErrorClass, Option<String>)>,
}
