//! Loads of functions, and their peaks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tetris_scaler_core::{LoadPeak, Rate};

use super::records::FunctionRecord;
use crate::load::{LoadError, Prometheus};
use crate::metrics::Metrics;
use crate::resources::{CheckedFunction, LoadSource};
use crate::state::Key;

/// Number of functions that are queried concurrently.
const AT_ONCE: usize = 16;

/// Loads of all functions. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Loads {
    all: Arc<Mutex<BTreeMap<Key, Measured>>>,
    least_window_ms: u64,
}

#[derive(Debug)]
struct Measured {
    uid: String,
    window_ms: u64,
    peak: Option<LoadPeak>,
    at_ms: u64,
    reading: Reading,
}

/// Last reading of a function's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Load of the function.
    pub load: Result<Rate, LoadError>,
    /// Loads of its instances, by pod.
    pub pods: Arc<BTreeMap<String, Rate>>,
    /// Largest load of a whole window.
    pub peak: Option<Rate>,
}

impl Loads {
    /// Creates an empty record. A window shorter than `least_window` is extended to that.
    pub fn new(least_window: Duration) -> Self {
        Self {
            all: Arc::default(),
            least_window_ms: u64::try_from(least_window.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Queries the loads of all `functions` once. `clock` returns monotonic milliseconds.
    pub async fn round(
        &self,
        functions: &BTreeMap<Key, Arc<FunctionRecord>>,
        prometheus: Option<&Prometheus>,
        metrics: &Metrics,
        clock: impl Fn() -> u64,
    ) {
        let asked = functions.values().filter_map(|record| {
            let function = record.function.as_ref().ok()?;
            Some(async move { (record, function, read(function, prometheus).await) })
        });
        let asked: Vec<_> = asked.collect();
        let mut answers = futures::stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some((record, function, (load, pods))) = answers.next().await {
            if let Err(error) = &load {
                metrics.failed(error.class());
                tracing::debug!(function = %record.key, "{error}");
            }
            self.measured(record, function.window_ms, clock(), load, pods);
        }
        self.lock().retain(|key, _| functions.contains_key(key));
    }

    /// Records a measurement at `at_ms`.
    pub fn measured(
        &self,
        record: &FunctionRecord,
        window_ms: u64,
        at_ms: u64,
        load: Result<Rate, LoadError>,
        pods: BTreeMap<String, Rate>,
    ) {
        let window_ms = window_ms.max(self.least_window_ms);
        let mut all = self.lock();
        let is_same = |one: &Measured| one.uid == record.uid && one.window_ms == window_ms;
        let known = all.remove(&record.key).filter(is_same);
        let mut peak = match known {
            Some(known) => known.peak,
            None => LoadPeak::try_new(window_ms).ok(),
        };
        if let (Ok(load), Some(peak)) = (&load, &mut peak)
            && let Err(error) = peak.measured(at_ms, *load)
        {
            tracing::warn!(function = %record.key, "{error}; the measurement is ignored");
        }
        let one = Measured {
            uid: record.uid.clone(),
            window_ms,
            peak,
            at_ms,
            reading: Reading {
                load,
                pods: Arc::new(pods),
                peak: None,
            },
        };
        all.insert(record.key.clone(), one);
    }

    /// Returns the reading at `now_ms`. A reading older than `stale_ms` is unknown.
    pub fn of(&self, record: &FunctionRecord, now_ms: u64, stale_ms: u64) -> Reading {
        let all = self.lock();
        let known = all.get(&record.key).filter(|one| one.uid == record.uid);
        let unknown = |error: LoadError| Reading {
            load: at_once(record).ok_or(error),
            pods: Arc::default(),
            peak: None,
        };
        let Some(known) = known else {
            return unknown(LoadError::NotAsked);
        };
        if now_ms.saturating_sub(known.at_ms) > stale_ms {
            let problem = "the last answer is too old".to_owned();
            return unknown(LoadError::Unreachable { problem });
        }
        Reading {
            peak: known.peak.as_ref().and_then(|peak| peak.at(now_ms)),
            ..known.reading.clone()
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Measured>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a load that needs no query.
fn at_once(record: &FunctionRecord) -> Option<Rate> {
    match record.function.as_ref().ok()?.load {
        LoadSource::Static(rate) => Some(rate),
        LoadSource::Prometheus(_) => None,
    }
}

type Answer = (Result<Rate, LoadError>, BTreeMap<String, Rate>);

async fn read(function: &CheckedFunction, prometheus: Option<&Prometheus>) -> Answer {
    let queries = match &function.load {
        LoadSource::Static(rate) => return (Ok(*rate), BTreeMap::new()),
        LoadSource::Prometheus(queries) => queries,
    };
    let Some(prometheus) = prometheus else {
        return (Err(LoadError::NoServer), BTreeMap::new());
    };
    let pods = async {
        match &queries.per_pod_query {
            Some(query) => prometheus.loads_by_pod(query).await,
            None => Ok(BTreeMap::new()),
        }
    };
    let (load, pods) = tokio::join!(prometheus.load(&queries.query), pods);
    let pods = pods.unwrap_or_else(|error| {
        // This only affects the order of releases.
        tracing::warn!(function = function.name, "perPodQuery: {error}");
        BTreeMap::new()
    });
    (load, pods)
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    fn record(load: &serde_json::Value) -> FunctionRecord {
        let object = json!({
            "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
            "metadata": {"name": "f", "namespace": "blue", "uid": "u"},
            "spec": {
                "profile": "m", "slo": {"latencyMillis": 200}, "load": load,
                "template": {"spec": {"containers": [{"name": "main", "image": "server"}]}},
            },
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        FunctionRecord::read(object)
    }

    #[test]
    fn a_window_that_is_shorter_than_the_interval_comes_to_an_end() {
        let record = record(&json!({"prometheus": {"query": "q"}}));
        let loads = Loads::new(Duration::from_secs(15));
        let seven = Rate::from_rps(7);
        for at_ms in [0, 5_000, 10_000] {
            let peak = |now_ms| loads.of(&record, now_ms, 30_000).peak;
            assert_eq!(peak(at_ms), None, "{at_ms}");
            loads.measured(&record, 1_000, at_ms, Ok(seven), BTreeMap::new());
        }
        assert_eq!(loads.of(&record, 15_000, 30_000).peak, Some(seven));
    }

    #[test]
    fn a_new_function_is_not_one_whose_load_cannot_be_had() {
        let loads = Loads::default();
        let asked = record(&json!({"prometheus": {"query": "q"}}));
        assert_eq!(loads.of(&asked, 0, 1).load, Err(LoadError::NotAsked));
        let constant = record(&json!({"static": {"requestsPerSecond": 7.0}}));
        assert_eq!(loads.of(&constant, 0, 1).load, Ok(Rate::from_rps(7)));
    }
}
