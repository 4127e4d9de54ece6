//! Files that clients pass, as they are on their way and when they have ended.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, Metrics};
use crate::ingest::{EndedIngest, IngestObserver, IngestOutcome};

/// Upper bounds in seconds. Known files take milliseconds, others from some megabytes to a terabyte
/// at 300 MB to 10 GB per second.
const SECONDS: [f64; 12] = [
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
];

/// Metrics of ingests, besides the counters by outcome.
#[derive(Debug)]
pub(super) struct Ingests {
    active_files: Family<Labels, Gauge>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Ingests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let ingests = Self {
            active_files: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        };
        registry.register(
            "ingest_in_flight_files",
            "Passed files that wait, are read or are kept for clients",
            ingests.active_files.clone(),
        );
        registry.register_with_unit(
            "ingest_duration",
            "Time from passing a file until it was in the store",
            Unit::Seconds,
            ingests.seconds.clone(),
        );
        ingests
    }

    /// Shows the series of a store.
    pub(super) fn start(&self, store: &str) {
        drop(self.active_files.get_or_create(&labels(store)));
        drop(self.seconds.get_or_create(&labels(store)));
    }

    /// Removes the series of a store.
    pub(super) fn forget(&self, store: &str) {
        self.active_files.remove(&labels(store));
        self.seconds.remove(&labels(store));
    }

    fn took(&self, store: &str, took: Duration) {
        let seconds = self.seconds.get_or_create(&labels(store));
        seconds.observe(took.as_secs_f64());
    }
}

impl IngestObserver for Metrics {
    fn active_files(&self, store: &str, files: usize) {
        self.with_store(Some(store), |known| {
            let files = i64::try_from(files).unwrap_or(i64::MAX);
            // Of stores that are not configured, one number would stand for several.
            if !known.is_empty() {
                self.ingests
                    .active_files
                    .get_or_create(&labels(known))
                    .set(files);
            }
        });
    }

    fn ended(&self, ended: EndedIngest<'_>) {
        let outcome = ended.outcome.name();
        self.with_store(Some(ended.store), |store| {
            self.counters.ingest_files.add(store, outcome, 1);
            self.counters
                .ingest_bytes
                .add(store, outcome, ended.bytes_read);
            if matches!(
                ended.outcome,
                IngestOutcome::Published | IngestOutcome::Known
            ) {
                self.ingests.took(store, ended.took);
            }
        });
    }
}

fn labels(store: &str) -> Labels {
    vec![("store", store.to_owned())]
}
