//! The cold tier: its use of the disk, and what went there and came back.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tetris_cold::ColdUse;

use super::{Labels, Metrics};
use crate::cold::ColdObserver;

/// Gauges of the cold tier; 0 without one.
#[derive(Debug)]
pub(super) struct ColdGauges {
    models: Family<Labels, Gauge>,
    bytes: Family<Labels, Gauge>,
}

impl ColdGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gauges = Self {
            models: Family::default(),
            bytes: Family::default(),
        };
        registry.register(
            "cold_models",
            "Models in the cold tier",
            gauges.models.clone(),
        );
        registry.register_with_unit(
            "cold",
            "Bytes of the disk that the cold tier takes",
            Unit::Bytes,
            gauges.bytes.clone(),
        );
        gauges
    }

    /// Shows the series of a store.
    pub(super) fn start(&self, store: &str) {
        drop(self.models.get_or_create(&labels(store)));
        drop(self.bytes.get_or_create(&labels(store)));
    }

    /// Removes the series of a store.
    pub(super) fn forget(&self, store: &str) {
        self.models.remove(&labels(store));
        self.bytes.remove(&labels(store));
    }

    fn show(&self, usage: &ColdUse) {
        let models = i64::try_from(usage.models).unwrap_or(i64::MAX);
        let bytes = i64::try_from(usage.bytes).unwrap_or(i64::MAX);
        self.models.get_or_create(&labels(&usage.store)).set(models);
        self.bytes.get_or_create(&labels(&usage.store)).set(bytes);
    }
}

impl ColdObserver for std::sync::Arc<Metrics> {
    fn kept(&self, store: &str, bytes: u64) {
        self.with_store(Some(store), |store| {
            self.counters.cold_kept_bytes.add(store, "", bytes);
        });
    }

    fn restored(&self, store: &str, bytes: u64) {
        self.with_store(Some(store), |store| {
            self.counters.cold_restored_bytes.add(store, "", bytes);
        });
    }

    fn damaged(&self, store: &str) {
        self.with_store(Some(store), |store| {
            self.counters.cold_damaged.add(store, "", 1);
        });
    }

    fn usage(&self, usage: &[ColdUse]) {
        for usage in usage {
            self.with_store(Some(&usage.store), |known| {
                if !known.is_empty() {
                    self.cold.show(usage);
                }
            });
        }
    }
}

fn labels(store: &str) -> Labels {
    vec![("store", store.to_owned())]
}
