//! Limits of ingests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use tetris_reclaimer_core::StorePolicy;
use tetris_store_layout::RecordUse;

/// The table `[ingest]`: files that clients pass, which can only read the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// True if the broker takes files.
    pub enabled: bool,
    /// Files that are read at a time.
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
    #[serde(with = "tetris_conventions::duration::seconds")]
    pub wait_secs: u64,
    /// Seconds without progress after which a file is given up.
    #[serde(with = "tetris_conventions::duration::seconds")]
    pub stall_secs: u64,
    /// The longest file in bytes; the store is a limit in any case.
    #[serde(with = "tetris_conventions::size::optional")]
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
            // The replicas of a model that start at once, each with a file of its own.
            queue: 128,
            queue_per_user: 96,
            wait_secs: 300,
            // Less than an agent waits for a message, so that it is told.
            stall_secs: 20,
            max_file_bytes: None,
            max_tensors: 262_144,
        }
    }
}

impl IngestConfig {
    /// Each field with its value, and the least and most that it may have.
    pub(crate) fn ranges(&self) -> [(&'static str, u64, u64, u64); 9] {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestOptions {
    /// The table.
    pub config: IngestConfig,
    /// Limits of stores in bytes, by name (`policy.stores.NAME.limit_bytes`); none for a store that
    /// has a policy without one.
    pub quotas: BTreeMap<String, Option<u64>>,
    /// The limit of each other store (`policy.store.limit_bytes`).
    pub quota_of_others: Option<u64>,
    /// Limits of stores' records, by name (`policy.stores.NAME.record_bytes` and `record_files`).
    pub records: BTreeMap<String, RecordUse>,
    /// Limits of the records of each other store.
    pub records_of_others: RecordUse,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self {
            config: IngestConfig::default(),
            quotas: BTreeMap::new(),
            quota_of_others: None,
            records: BTreeMap::new(),
            records_of_others: StorePolicy::default().record_limits(),
        }
    }
}

impl IngestOptions {
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs(self.config.wait_secs)
    }

    pub(super) fn stall(&self) -> Duration {
        Duration::from_secs(self.config.stall_secs)
    }

    /// Limits of the store's records.
    pub(super) fn record_limits(&self, store: &str) -> RecordUse {
        let own = self.records.get(store).copied();
        own.unwrap_or(self.records_of_others)
    }

    pub(super) fn quota(&self, store: &str) -> Option<u64> {
        let own = self.quotas.get(store).copied();
        own.unwrap_or(self.quota_of_others)
    }
}
