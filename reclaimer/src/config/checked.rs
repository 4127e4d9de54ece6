//! Values of a checked configuration, in the types of the modules that need them.

use std::time::Duration;

use tetris_reclaimer_core::ReloadCost;

use super::Config;
use crate::ingest::IngestOptions;

impl Config {
    /// Time between two passes when nothing happens.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.file.interval_secs)
    }

    /// Time between two looks at how full the stores are.
    pub fn watermark_check(&self) -> Duration {
        Duration::from_millis(self.file.watermark_check_ms)
    }

    /// Time that a damaged object stays for inspection.
    pub fn quarantine(&self) -> Duration {
        Duration::from_secs(self.file.quarantine_hours * 3600)
    }

    /// Cost of a model's reload.
    pub fn reload_cost(&self) -> ReloadCost {
        ReloadCost {
            fixed_ms: self.file.reload_cost.fixed_ms,
            bytes_per_sec: self.file.reload_cost.bytes_per_sec,
        }
    }
}

impl From<&Config> for IngestOptions {
    fn from(config: &Config) -> Self {
        let policies = config.policy.config();
        let quotas = policies.stores.iter();
        let quotas = quotas.map(|(name, policy)| (name.clone(), policy.limit_bytes));
        Self {
            config: config.file.ingest.clone(),
            quotas: quotas.collect(),
            quota_of_others: policies.store.limit_bytes,
            records: policies
                .stores
                .iter()
                .map(|(name, policy)| (name.clone(), policy.record_limits()))
                .collect(),
            records_of_others: policies.store.record_limits(),
        }
    }
}
