//! Limits of ingests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use tetris_reclaimer_core::{Policy, Space, StorePolicy};
use tetris_store_layout::{RecordUse, Usage};

/// The table `[ingest]`: files that clients pass, which can only read the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// True if the broker takes files.
    pub enabled: bool,
    /// Files read at a time. One of each store is read in any case, by one thread where
    /// there are more.
    pub concurrent: u32,
    /// Of these, files for one store.
    pub per_store: u32,
    /// Of these, files of one user.
    pub per_user: u32,
    /// Files that wait for their turn, for one store.
    pub queue: u32,
    /// Of these, files of one user.
    pub queue_per_user: u32,
    /// Longest wait for a turn, in seconds; then the client gets the answer that the daemon is
    /// busy.
    #[serde(with = "tetris_units::duration::seconds")]
    pub wait_secs: u64,
    /// Seconds without progress after which a file is given up.
    #[serde(with = "tetris_units::duration::seconds")]
    pub stall_secs: u64,
    /// Least bytes of a file per second, on average over `stall_secs`: a slower one is given up.
    #[serde(with = "tetris_units::size")]
    pub least_bytes_per_sec: u64,
    /// The longest file in bytes; the store is a limit in any case.
    #[serde(with = "tetris_units::size::optional")]
    pub max_file_bytes: Option<u64>,
    /// The most tensors of a file.
    pub max_tensors: u32,
}

impl Default for IngestConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            // More than one store may use: clients of one that read slowly leave turns for others.
            concurrent: 4,
            per_store: 2,
            per_user: 1,
            // The replicas of a model that start at once, each with its own file.
            queue: 128,
            queue_per_user: 96,
            wait_secs: 300,
            // Less than an agent waits for a message, so that it hears of it.
            stall_secs: 20,
            // Slower than any disk or network from which models are served.
            least_bytes_per_sec: 1 << 20,
            max_file_bytes: None,
            max_tensors: 262_144,
        }
    }
}

impl IngestConfig {
    /// Each field with its value, and the least and most that it may have.
    pub(crate) fn ranges(&self) -> [(&'static str, u64, u64, u64); 10] {
        let concurrent = u64::from(self.concurrent);
        let per_store = u64::from(self.per_store);
        let queue = u64::from(self.queue);
        [
            ("ingest.concurrent", concurrent, 1, 64),
            ("ingest.per_store", per_store, 1, concurrent),
            ("ingest.per_user", self.per_user.into(), 1, per_store),
            ("ingest.queue", queue, 1, 1024),
            (
                "ingest.queue_per_user",
                self.queue_per_user.into(),
                1,
                queue,
            ),
            ("ingest.wait_secs", self.wait_secs, 1, 3600),
            ("ingest.stall_secs", self.stall_secs, 1, 3600),
            (
                "ingest.least_bytes_per_sec",
                self.least_bytes_per_sec,
                0,
                1 << 30,
            ),
            (
                "ingest.max_file_bytes",
                self.max_file_bytes.unwrap_or(1),
                1,
                u64::MAX,
            ),
            ("ingest.max_tensors", self.max_tensors.into(), 1, 2_000_000),
        ]
    }
}

/// Limits of ingests, from the whole configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IngestOptions {
    /// The table.
    pub config: IngestConfig,
    /// Policies of the stores.
    pub policy: Policy,
    /// The namespaces whose own stores there are, by the stores' names.
    pub own: BTreeMap<String, String>,
    /// True if stores of namespaces may come: room is kept back for them from every store.
    pub keeps_room: bool,
}

impl IngestOptions {
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs(self.config.wait_secs)
    }

    pub(super) fn stall(&self) -> Duration {
        Duration::from_secs(self.config.stall_secs)
    }

    fn policy(&self, store: &str) -> (&StorePolicy, bool) {
        let namespace = self.own.get(store).map(String::as_str);
        let policy = self.policy.of_owned(store, namespace);
        (policy, namespace.is_some())
    }

    /// Limit of the store, which lies on a mount with this usage.
    pub(super) fn limit(&self, store: &str, usage: &Usage) -> Space {
        let (policy, own) = self.policy(store);
        let capacity = Space {
            bytes: usage.capacity,
            inodes: usage.inodes,
        };
        policy.share(own, capacity).limit
    }

    /// Limits of the store's records.
    pub(super) fn record_limits(&self, store: &str, usage: &Usage) -> RecordUse {
        let limit = self.limit(store, usage);
        self.policy(store).0.record_limits(limit)
    }

    /// Returns true if the store needs to be given room for a file before the file is read: it has a
    /// limit, or other stores have guarantees. Others have room made when they are full.
    pub(super) fn asks_first(&self, store: &str) -> bool {
        let (policy, own) = self.policy(store);
        let config = self.policy.config();
        let mut named = config.stores.values().chain(config.namespaces.values());
        let guarantees = |policy: &StorePolicy| {
            policy.guaranteed_bytes > 0 || policy.guaranteed_percent.is_some_and(|part| part > 0)
        };
        own || self.keeps_room
            || policy.limit_bytes.is_some()
            || policy.limit_percent.is_some()
            || policy.limit_inodes.is_some()
            || guarantees(&config.store)
            || named.any(guarantees)
    }
}
