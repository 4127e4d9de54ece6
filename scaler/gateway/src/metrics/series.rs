//! Series of one function, kept so that a request need not look them up by their labels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::Labels;
use crate::function_name::FunctionName;
use crate::recent::Recent;

/// Series of one function. Each begins with its first value.
#[derive(Debug)]
pub(super) struct FunctionSeries {
    pub(super) name: FunctionName,
    pub(super) labels: Labels,
    pub(super) requests: Counter,
    pub(super) waits: OnceLock<Histogram>,
    /// Served requests that met the objective.
    pub(super) met: OnceLock<Counter>,
    /// Served requests that did not.
    pub(super) missed: OnceLock<Counter>,
    configurations: RwLock<BTreeMap<String, Arc<ConfigurationSeries>>>,
    recent: Mutex<Recent>,
}

/// Series of one configuration of a function.
#[derive(Debug)]
pub(super) struct ConfigurationSeries {
    pub(super) labels: Labels,
    pub(super) served: OnceLock<Counter>,
    pub(super) latencies: OnceLock<Histogram>,
}

impl FunctionSeries {
    pub(super) fn new(name: FunctionName, labels: Labels, requests: Counter) -> Self {
        Self {
            name,
            labels,
            requests,
            waits: OnceLock::new(),
            met: OnceLock::new(),
            missed: OnceLock::new(),
            configurations: RwLock::default(),
            recent: Mutex::default(),
        }
    }

    /// Arrivals, and latencies of the last minute.
    pub(super) fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Series of a configuration.
    pub(super) fn of(&self, configuration: &str) -> Arc<ConfigurationSeries> {
        {
            let known = self.configurations.read();
            let known = known.unwrap_or_else(PoisonError::into_inner);
            if let Some(one) = known.get(configuration) {
                return Arc::clone(one);
            }
        }
        let mut known = self
            .configurations
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let series = known.entry(configuration.to_owned()).or_insert_with(|| {
            let mut labels = self.labels.clone();
            labels.push(("configuration", configuration.to_owned()));
            Arc::new(ConfigurationSeries {
                labels,
                served: OnceLock::new(),
                latencies: OnceLock::new(),
            })
        });
        Arc::clone(series)
    }
}
