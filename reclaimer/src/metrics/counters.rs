//! Counters of passes, checks and requests since the start of the daemon.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tetris_reclaimer_core::Reason;

use super::{Labels, RoomOutcome};
use crate::ingest::IngestOutcome;
use crate::report::{ErrorClass, ScrubResult, Trigger};

/// Upper bounds of pass durations in seconds. A plan over 100,000 objects takes 1 to 25 ms, listing
/// them some hundred; a pass of more than some seconds frees much or has a store that hangs.
const PASS_SECONDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// A counter: its name, true if it counts bytes, its help, and its series.
type Described<'a> = (&'static str, bool, &'static str, &'a ByStore);

/// A counter per store, and per value of one more label if it has one.
#[derive(Debug)]
pub(super) struct ByStore {
    family: Family<Labels, Counter>,
    label: &'static str,
    values: Vec<&'static str>,
}

impl ByStore {
    /// A counter by store alone.
    fn plain() -> Self {
        Self::split("", Vec::new())
    }

    /// A counter by store and `label`, which has these values.
    fn split(label: &'static str, values: Vec<&'static str>) -> Self {
        Self {
            family: Family::default(),
            label,
            values,
        }
    }

    fn labels(&self, store: &str, value: &str) -> Labels {
        let mut labels = vec![("store", store.to_owned())];
        if !self.label.is_empty() {
            labels.push((self.label, value.to_owned()));
        }
        labels
    }

    /// All series of a store.
    fn series(&self, store: &str) -> Vec<Labels> {
        if self.label.is_empty() {
            return vec![self.labels(store, "")];
        }
        self.values.iter().map(|v| self.labels(store, v)).collect()
    }

    /// Adds `n`; `value` is that of the other label, and is not looked at when there is none.
    pub(super) fn add(&self, store: &str, value: &str, n: u64) {
        self.family
            .get_or_create(&self.labels(store, value))
            .inc_by(n);
    }

    fn start(&self, store: &str) {
        for labels in self.series(store) {
            drop(self.family.get_or_create(&labels));
        }
    }

    fn forget(&self, store: &str) {
        for labels in self.series(store) {
            self.family.remove(&labels);
        }
    }
}

/// All counters.
#[derive(Debug)]
pub(super) struct Counters {
    pub hits: ByStore,
    pub hit_bytes: ByStore,
    pub misses: ByStore,
    pub missed_bytes: ByStore,
    pub reclaimed_objects: ByStore,
    pub reclaimed_bytes: ByStore,
    pub kept_by_lock: ByStore,
    pub records_removed: ByStore,
    pub scrubbed_objects: ByStore,
    pub scrubbed_bytes: ByStore,
    pub room_requests: ByStore,
    pub room_bytes: ByStore,
    pub ingest_files: ByStore,
    pub ingest_bytes: ByStore,
    pub cold_kept_bytes: ByStore,
    pub cold_restored_bytes: ByStore,
    pub cold_damaged: ByStore,
    pub errors: ByStore,
    pass_seconds: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Counters {
    /// Registers them.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counters = Self::new();
        for (name, bytes, help, counter) in counters.described() {
            let family = counter.family.clone();
            if bytes {
                registry.register_with_unit(name, help, Unit::Bytes, family);
            } else {
                registry.register(name, help, family);
            }
        }
        registry.register_with_unit(
            "pass_duration",
            "Duration of passes, by trigger",
            Unit::Seconds,
            counters.pass_seconds.clone(),
        );
        for trigger in Trigger::ALL {
            drop(counters.pass_seconds.get_or_create(&by_trigger(trigger)));
        }
        // Errors that concern no store have an empty label, which to Prometheus is none.
        counters.errors.start("");
        counters
    }

    fn new() -> Self {
        let reasons = || ByStore::split("reason", Reason::ALL.map(Reason::name).to_vec());
        let results = || ByStore::split("result", ScrubResult::ALL.map(ScrubResult::name).to_vec());
        let outcomes =
            || ByStore::split("outcome", RoomOutcome::ALL.map(RoomOutcome::name).to_vec());
        let ingests = || {
            ByStore::split(
                "outcome",
                IngestOutcome::ALL.map(IngestOutcome::name).to_vec(),
            )
        };
        Self {
            hits: ByStore::plain(),
            hit_bytes: ByStore::plain(),
            misses: ByStore::plain(),
            missed_bytes: ByStore::plain(),
            reclaimed_objects: reasons(),
            reclaimed_bytes: reasons(),
            kept_by_lock: ByStore::plain(),
            records_removed: ByStore::plain(),
            scrubbed_objects: results(),
            scrubbed_bytes: results(),
            room_requests: outcomes(),
            room_bytes: outcomes(),
            ingest_files: ingests(),
            ingest_bytes: ingests(),
            cold_kept_bytes: ByStore::plain(),
            cold_restored_bytes: ByStore::plain(),
            cold_damaged: ByStore::plain(),
            errors: ByStore::split("class", ErrorClass::ALL.map(ErrorClass::name).to_vec()),
            pass_seconds: Family::new_with_constructor(|| Histogram::new(PASS_SECONDS)),
        }
    }

    /// All counters by store. The registry appends the unit and `_total` to names.
    ///
    /// It takes every field apart, so that the compiler warns of one without a name.
    #[rustfmt::skip]
    fn described(&self) -> [Described<'_>; 18] {
        let Self {
            hits, hit_bytes, misses, missed_bytes, reclaimed_objects, reclaimed_bytes,
            kept_by_lock, records_removed, scrubbed_objects, scrubbed_bytes, room_requests,
            room_bytes, ingest_files, ingest_bytes, cold_kept_bytes, cold_restored_bytes,
            cold_damaged, errors, pass_seconds: _,
        } = self;
        [
            ("load_hits", false, "Loads of models that were in the store", hits),
            ("load_hit", true, "Bytes that loads found in the store", hit_bytes),
            ("load_misses", false, "Models that came into the store, or came back", misses),
            ("load_missed", true, "Bytes that loads published", missed_bytes),
            ("reclaimed_objects", false, "Objects freed; in a dry run, that would have been", reclaimed_objects),
            ("reclaimed", true, "Bytes freed; in a dry run, that would have been", reclaimed_bytes),
            ("kept_by_lock_objects", false, "Objects planned to be freed that turned out to be mapped", kept_by_lock),
            ("records_removed", false, "Records removed because their objects are gone, or to stay within the store's limits", records_removed),
            ("scrubbed_objects", false, "Objects checked, by result", scrubbed_objects),
            ("scrubbed", true, "Bytes read to check objects, by result", scrubbed_bytes),
            ("room_requests", false, "Loads that asked for room, by outcome", room_requests),
            ("room_requested", true, "Bytes that loads asked for, by outcome", room_bytes),
            ("ingest_files", false, "Files that agents passed, by outcome; one that several wait for counts once", ingest_files),
            ("ingest_read", true, "Bytes read of files that agents passed, by outcome", ingest_bytes),
            ("cold_kept", true, "Bytes of models written to the cold tier", cold_kept_bytes),
            ("cold_restored", true, "Bytes of models read from the cold tier", cold_restored_bytes),
            ("cold_damaged_models", false, "Models of the cold tier found to be damaged", cold_damaged),
            ("errors", false, "Errors, by class", errors),
        ]
    }

    /// Counts a pass.
    pub(super) fn pass(&self, trigger: Trigger, seconds: f64) {
        self.pass_seconds
            .get_or_create(&by_trigger(trigger))
            .observe(seconds);
    }

    /// Shows all series of a store, with 0.
    pub(super) fn start(&self, store: &str) {
        for (.., counter) in self.described() {
            counter.start(store);
        }
    }

    /// Removes all series of a store.
    pub(super) fn forget(&self, store: &str) {
        for (.., counter) in self.described() {
            counter.forget(store);
        }
    }
}

fn by_trigger(trigger: Trigger) -> Labels {
    vec![("trigger", trigger.name().to_owned())]
}
