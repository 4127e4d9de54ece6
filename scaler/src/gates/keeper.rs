//! Gates that stayed closed for too long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use tokio::time::{Instant, sleep, timeout};

use super::error::GatesError;
use crate::labels;
use crate::metrics::Metrics;
use crate::operator::cache::Cache;
use crate::placement::{Gate, Opened, open};
use crate::state::Key;

/// Interval between two looks at the closed gates.
const TICK: Duration = Duration::from_millis(250);
/// Timeout of one write.
const REQUEST: Duration = Duration::from_secs(5);
/// Number of gates that are opened concurrently.
const AT_ONCE: usize = 16;
/// Wait after an error, for a pod.
const WAIT: Duration = Duration::from_secs(2);

/// A pod with a closed gate: of a function, or one that names its model.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed(Gate);

impl Closed {
    /// Reads a pod; returns `None` for one without a closed gate.
    pub fn read(pod: &Pod) -> Option<Self> {
        let is_ours = pod.labels().contains_key(labels::FUNCTION)
            || pod.annotations().contains_key(labels::PROFILE);
        Gate::read(pod).filter(|_| is_ours).map(Self)
    }
}

/// Opens gates that stay closed.
pub struct Keeper {
    client: Client,
    metrics: Arc<Metrics>,
    after: Duration,
    /// Time at which each closed gate was seen first, by uid of the pod.
    seen: BTreeMap<String, Instant>,
    /// Time before which the gate is not tried again, by uid of the pod.
    put_off: BTreeMap<String, Instant>,
    /// Namespaces whose missing right was logged.
    told: BTreeSet<String>,
}

impl Keeper {
    /// Creates a keeper that opens gates with `client` which it has seen closed for `after`.
    pub fn new(client: Client, metrics: Arc<Metrics>, after: Duration) -> Self {
        Self {
            client,
            metrics,
            after,
            seen: BTreeMap::new(),
            put_off: BTreeMap::new(),
            told: BTreeSet::new(),
        }
    }

    /// Opens the gates in `pods` when they are due, for ever.
    pub async fn run(mut self, pods: &Cache<Closed>) {
        loop {
            if let Some(pods) = pods.all() {
                self.round(&pods).await;
            }
            sleep(TICK).await;
        }
    }

    /// Opens the gates that are due now. Returns the number of gates that it opened.
    pub async fn round(&mut self, pods: &BTreeMap<Key, Arc<Closed>>) -> usize {
        let now = Instant::now();
        let uids: BTreeSet<&str> = pods.values().map(|pod| pod.0.uid.as_str()).collect();
        self.seen.retain(|uid, _| uids.contains(uid.as_str()));
        self.put_off.retain(|uid, _| uids.contains(uid.as_str()));
        let mut due = Vec::new();
        for (key, Closed(gate)) in pods.iter().map(|(key, pod)| (key, pod.as_ref())) {
            let since = *self.seen.entry(gate.uid.clone()).or_insert(now);
            let is_put_off = self
                .put_off
                .get(&gate.uid)
                .is_some_and(|until| *until > now);
            let waited = now.duration_since(since);
            if waited >= self.after && !is_put_off {
                due.push((key.clone(), gate.clone(), waited));
            }
        }
        let client = &self.client;
        let writes = due.into_iter().map(|(key, gate, waited)| async move {
            let written = timeout(REQUEST, open(client, &key, gate.opening(None, None))).await;
            let result = match written {
                Ok(Ok(opened)) => Ok(opened),
                Ok(Err(error)) => Err(GatesError::of(key, error)),
                Err(_) => Err(GatesError::Timeout {
                    pod: key,
                    limit: REQUEST,
                }),
            };
            (gate.uid, waited, result)
        });
        let done: Vec<_> = futures::stream::iter(writes)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut opened = 0_usize;
        for (uid, waited, result) in done {
            match result {
                Ok(Opened::Done) => {
                    opened = opened.saturating_add(1);
                    self.metrics.opened("timeout", waited.as_secs_f64());
                }
                Ok(Opened::Outdated) => {}
                Err(error) => self.failed(uid, &error),
            }
        }
        opened
    }

    fn failed(&mut self, uid: String, error: &GatesError) {
        self.metrics.failed(error.class());
        let is_news = match error {
            GatesError::NoRight { pod, .. } => self.told.insert(pod.namespace.clone()),
            _ => true,
        };
        if is_news {
            tracing::warn!("{error}");
        }
        let now = Instant::now();
        let until = now.checked_add(WAIT).unwrap_or(now);
        self.put_off.insert(uid, until);
    }
}
