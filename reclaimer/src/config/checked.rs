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
        let stores = config.file.stores.iter();
        let namespaces = stores.filter_map(|store| {
            let namespace = store.namespace()?;
            Some((store.name.clone(), namespace.to_owned()))
        });
        Self {
            config: config.file.ingest.clone(),
            policy: config.policy.clone(),
            own: namespaces.collect(),
            keeps_room: config.file.makes_stores(),
        }
    }
}
