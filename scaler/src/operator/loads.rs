//! Loads of functions, and their peaks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use tetris_scaler_core::{LoadPeak, Rate};

use super::latency::Smoothed;
use super::records::FunctionRecord;
use crate::gateways::GatewayReading;
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
    latency: Option<Smoothed>,
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
    /// Latency in service, smoothed over a window, in microseconds; `None` if no one measures it.
    pub latency: Option<Result<u64, LoadError>>,
    /// True if a request waits or is served.
    pub is_demanded: bool,
}

/// Measurements of a function at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Load of the function.
    pub load: Result<Rate, LoadError>,
    /// Loads of its instances, by pod.
    pub pods: BTreeMap<String, Rate>,
    /// Latency in service, in microseconds; `None` if no one measures it.
    pub latency: Option<Result<u64, LoadError>>,
    /// True if a request waits or is served.
    pub is_demanded: bool,
}

impl From<GatewayReading> for Answers {
    fn from(reading: GatewayReading) -> Self {
        Self {
            load: reading.load,
            pods: reading.pods,
            latency: Some(reading.latency),
            is_demanded: reading.is_demanded,
        }
    }
}

impl Loads {
    /// Creates an empty record. A window shorter than `least_window` is extended to that.
    pub fn new(least_window: Duration) -> Self {
        Self {
            all: Arc::default(),
            least_window_ms: u64::try_from(least_window.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Queries the loads of all `functions` once, without those that gateways count. `clock` returns
    /// monotonic milliseconds.
    pub async fn round(
        &self,
        functions: &BTreeMap<Key, Arc<FunctionRecord>>,
        prometheus: Option<&Prometheus>,
        metrics: &Metrics,
        clock: impl Fn() -> u64,
    ) {
        let asked = functions.values().filter_map(|record| {
            let function = record.function.as_ref().ok()?;
            if function.load == LoadSource::Gateway {
                return None;
            }
            Some(async move { (record, function, read(function, prometheus).await) })
        });
        let asked: Vec<_> = asked.collect();
        let mut answers = futures::stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some((record, function, answers)) = answers.next().await {
            let latency = answers
                .latency
                .as_ref()
                .and_then(|answer| answer.as_ref().err());
            for error in answers.load.as_ref().err().into_iter().chain(latency) {
                metrics.failed(error.class());
                tracing::debug!(function = %record.key, "{error}");
            }
            self.measured(record, function.window_ms, clock(), answers);
        }
        self.lock().retain(|key, _| functions.contains_key(key));
    }

    /// Records a measurement at `at_ms`.
    pub fn measured(&self, record: &FunctionRecord, window_ms: u64, at_ms: u64, answers: Answers) {
        let Answers {
            load,
            pods,
            latency,
            is_demanded,
        } = answers;
        let window_ms = window_ms.max(self.least_window_ms);
        let mut all = self.lock();
        let is_same = |one: &Measured| one.uid == record.uid && one.window_ms == window_ms;
        let known = all.remove(&record.key).filter(is_same);
        let before = known.as_ref().and_then(|remove| remove.latency);
        let mut peak = match known {
            Some(known) => known.peak,
            None => LoadPeak::try_new(window_ms).ok(),
        };
        let latency = latency.map(|now| Smoothed::follow(before, now, at_ms, window_ms));
        if let (Ok(load), Some(peak)) = (&load, &mut peak)
            && let Err(error) = peak.measured(at_ms, *load)
        {
            tracing::warn!(function = %record.key, "{error}; the measurement is ignored");
        }
        let measured = Measured {
            uid: record.uid.clone(),
            window_ms,
            peak,
            at_ms,
            latency: latency
                .as_ref()
                .and_then(|answer| answer.as_ref().ok().copied()),
            reading: Reading {
                load,
                pods: Arc::new(pods),
                peak: None,
                latency: latency.map(|found| found.map(Smoothed::us)),
                is_demanded,
            },
        };
        all.insert(record.key.clone(), measured);
    }

    /// Returns the reading at `now_ms`. A reading older than `stale_ms` is unknown.
    pub fn of(&self, record: &FunctionRecord, now_ms: u64, stale_ms: u64) -> Reading {
        let all = self.lock();
        let known = all.get(&record.key).filter(|entry| entry.uid == record.uid);
        let unknown = |error: LoadError| Reading {
            latency: record.measures_latency().then(|| Err(error.clone())),
            load: at_once(record).ok_or(error),
            pods: Arc::default(),
            peak: None,
            is_demanded: false,
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
        LoadSource::Prometheus(_) | LoadSource::Gateway => None,
    }
}

async fn read(function: &CheckedFunction, prometheus: Option<&Prometheus>) -> Answers {
    let only = |load| Answers {
        load,
        pods: BTreeMap::new(),
        latency: None,
        is_demanded: false,
    };
    let queries = match &function.load {
        LoadSource::Static(rate) => return only(Ok(*rate)),
        LoadSource::Prometheus(queries) => queries,
        LoadSource::Gateway => return only(Err(LoadError::NotAsked)),
    };
    let Some(prometheus) = prometheus else {
        return only(Err(LoadError::NoServer));
    };
    let latency = async {
        match &queries.latency_query {
            Some(query) => Some(prometheus.latency_us(query).await),
            None => None,
        }
    };
    let pods = async {
        match &queries.per_pod_query {
            Some(query) => prometheus.loads_by_pod(query).await,
            None => Ok(BTreeMap::new()),
        }
    };
    let (load, pods, latency) = tokio::join!(prometheus.load(&queries.query), pods, latency);
    let pods = pods.unwrap_or_else(|error| {
        // This only affects the order of releases.
        tracing::warn!(function = function.name, "perPodQuery: {error}");
        BTreeMap::new()
    });
    Answers {
        load,
        pods,
        latency,
        is_demanded: false,
    }
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
            let answers = Answers {
                load: Ok(seven),
                pods: BTreeMap::new(),
                latency: None,
                is_demanded: false,
            };
            loads.measured(&record, 1_000, at_ms, answers);
        }
        assert_eq!(loads.of(&record, 15_000, 30_000).peak, Some(seven));
    }

    #[test]
    fn a_latency_that_is_asked_for_is_known_or_says_why_not() {
        let without = record(&json!({"prometheus": {"query": "q"}}));
        let record = record(&json!({"prometheus": {"query": "q", "latencyQuery": "l"}}));
        let loads = Loads::new(Duration::from_secs(15));
        let latency = |record, now_ms| loads.of(record, now_ms, 30_000).latency;
        assert_eq!(latency(&record, 0), Some(Err(LoadError::NotAsked)));
        assert_eq!(latency(&without, 0), None);
        let answers = |latency| Answers {
            load: Ok(Rate::from_rps(7)),
            pods: BTreeMap::new(),
            latency,
            is_demanded: false,
        };
        loads.measured(&record, 60_000, 0, answers(Some(Ok(50_000))));
        let failed = Some(Err(LoadError::Empty));
        loads.measured(&record, 60_000, 5_000, answers(failed.clone()));
        assert_eq!(latency(&record, 5_000), Some(Ok(50_000)), "for a window");
        loads.measured(&record, 60_000, 70_000, answers(failed.clone()));
        assert_eq!(latency(&record, 70_000), failed);
        let stale = latency(&record, 200_000);
        assert!(matches!(stale, Some(Err(LoadError::Unreachable { .. }))));
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
