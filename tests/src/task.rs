//! Tasks of worker processes, and their answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A task and the circumstances under which it is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The operation.
    pub task: Task,
    /// Become this user first, without any capability.
    pub uid: Option<u32>,
}

/// Task of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Task {
    /// One scenario, in which the worker may be killed.
    Crash(CrashTask),
    /// Publish, map, load, reclaim at random until stdin is closed, and check everything.
    Race(RaceTask),
    /// Create a store, or open it if there is one; answers with its id.
    Create {
        /// The store's directory.
        store: PathBuf,
    },
    /// Load a model on request, answer with a [`Loaded`], and hold it until stdin is closed.
    Load(LoadTask),
    /// Publish and reclaim one object again and again.
    Contend {
        /// The store's directory; the store is created if it is not there.
        store: PathBuf,
        /// Number of times.
        rounds: u64,
    },
    /// Load, check, derive and drop at random until stdin is closed; may be killed at any moment.
    Torture(TortureTask),
    /// Collect everything that no one references, again and again, until stdin is closed.
    Collect {
        /// The store's directory.
        store: PathBuf,
        /// The file to which events are appended.
        events: PathBuf,
    },
    /// Be the node's daemon until SIGTERM, or until stdin is closed.
    Daemon {
        /// Its configuration.
        config: PathBuf,
        /// The file to which events are appended.
        events: PathBuf,
    },
    /// Take locks as a hostile process would, and keep them until stdin is closed.
    Locks(LocksTask),
    /// As the owner of a store, see what [`OwnerReport`] lists.
    Owner {
        /// An empty directory of the owner's on a tmpfs.
        store: PathBuf,
    },
}

/// Locks for reading, which any process may take that can open a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LocksTask {
    /// The files. With an object for each, this pins them.
    pub files: Vec<PathBuf>,
    /// Number of locks on each file: 1 for a lock on all bytes, else as many on one byte each.
    pub each: u32,
    /// The kind of the locks.
    pub kind: LocksKind,
}

/// Kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocksKind {
    /// A lock of the open file description.
    Ofd,
    /// A lock of the process.
    Posix,
}

/// A scenario for one process that passes numbered steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CrashTask {
    /// The store's directory.
    pub store: PathBuf,
    /// The directory of the models.
    pub models: PathBuf,
    /// The operation.
    pub scenario: Scenario,
    /// Makes the scenario's own objects different from those of other processes.
    pub seed: u64,
}

/// Operation of a process that may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scenario {
    /// Publishes its own objects, then objects of the pool.
    Publish,
    /// Maps an object that is there, in both ways.
    Map,
    /// Publishes an object and reclaims it.
    Reclaim,
    /// Publishes and replaces manifests, identities and derived records.
    Records,
    /// Loads a model that is new.
    ColdLoad,
    /// Loads a known model of which some objects were reclaimed.
    Reload,
    /// Pulls a new model, and lists it as a folder.
    Pull,
    /// Collects everything that is not referenced.
    Collect,
    /// Quarantines all records.
    Quarantine,
}

/// Folder of the race.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RaceTask {
    /// The store's directory.
    pub store: PathBuf,
    /// The directory of the models.
    pub models: PathBuf,
    /// Decides what is done.
    pub seed: u64,
}

/// Result of a racing process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RaceReport {
    /// Rounds of the loop.
    pub rounds: u64,
    /// Objects reclaimed.
    pub reclaimed: u64,
    /// Objects that could not be reclaimed because they were referenced.
    pub referenced: u64,
    /// Models loaded.
    pub loads: u64,
    /// Of them, models of which a part was private.
    pub private_loads: u64,
    /// One of the reasons.
    pub private_reason: Option<String>,
}

/// Folder of the torture.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TortureTask {
    /// The store's directory.
    pub store: PathBuf,
    /// The models, as JSON of [`crate::torture::KnownModel`]s.
    pub models: PathBuf,
    /// The file to which events are appended.
    pub events: PathBuf,
    /// Decides what is done.
    pub seed: u64,
}

/// A model to load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadTask {
    /// The store's directory; `None` to load without a store.
    pub store: Option<PathBuf>,
    /// The model file.
    pub model: PathBuf,
    /// Load the file as a whole.
    pub whole: bool,
    /// Threads of a cold load.
    pub threads: Option<usize>,
    /// Limits to set before anything else.
    pub limits: Vec<Limit>,
    /// Count the signals SIGUSR1 that arrive, rather than dying of them.
    pub signals: bool,
}

/// A limit of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Limit {
    /// Descriptors that can still be opened once the store is open.
    Descriptors(u64),
    /// Mappings that can still be made once the store is open.
    Mappings(usize),
    /// Bytes of address space that can still be used once the store is open.
    AddressSpace(u64),
}

/// Outcome of a load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Loaded {
    /// The error, if it failed; everything else is empty then.
    pub error: Option<String>,
    /// Digest over all tensors, as [`crate::model::fingerprint`] gives it; of a whole file, BLAKE3.
    pub fingerprint: String,
    /// The way in which it was recognized.
    pub recognized: Vec<String>,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes that were in the store.
    pub bytes_shared: u64,
    /// Bytes that this load published.
    pub bytes_new: u64,
    /// Bytes in private memory.
    pub bytes_private: u64,
    /// Bytes read from the file.
    pub bytes_read: u64,
    /// The reason some bytes are private.
    pub private_reason: Option<String>,
    /// True if a whole file is in the store.
    pub is_shared: bool,
    /// Signals that arrived.
    pub signals: u64,
}

/// Findings of a store's owner without capabilities.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OwnerReport {
    /// A referenced object stayed.
    pub busy_stayed: bool,
    /// Mode of an object after an attempt to reclaim it failed because it was referenced.
    pub mode_after_busy: u32,
    /// Mode of a referenced object, left at 0644 by a reclaimer that died, after the next attempt.
    pub mode_after_crash: u32,
    /// An unreferenced object was freed.
    pub freed: bool,
}

impl Job {
    /// `task` as it is.
    pub fn new(task: Task) -> Self {
        Self { task, uid: None }
    }

    /// `task` done by another user.
    pub fn of_user(uid: u32, task: Task) -> Self {
        Self {
            task,
            uid: Some(uid),
        }
    }
}

impl From<LoadTask> for Job {
    fn from(task: LoadTask) -> Self {
        Self::new(Task::Load(task))
    }
}

impl LoadTask {
    /// Loads `model` through the store in `store`.
    pub fn of(store: impl Into<PathBuf>, model: impl Into<PathBuf>) -> Self {
        Self {
            store: Some(store.into()),
            model: model.into(),
            ..Self::default()
        }
    }
}
