//! Writes of placing.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};
use tokio::time::timeout;

use super::memory::Memory;
use super::step::Step;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::operator::apply::ApplyError;
use crate::placement::{Opened, open};
use crate::state::Key;

/// Timeout of one write. No write begins with less of the lease left.
const REQUEST: Duration = Duration::from_secs(5);
/// Number of pods that are written concurrently.
const AT_ONCE: usize = 16;
/// Wait of a pod after an error, in milliseconds.
const WAIT_MS: u64 = 2_000;

/// Writes to pods while this replica leads.
pub struct Placer {
    client: Client,
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

impl Placer {
    /// Creates a placer that writes with `client` while `leadership` lasts.
    pub fn new(client: Client, leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            leadership,
            metrics,
        }
    }

    /// Executes `steps`, and notes the results at `now`, in monotonic milliseconds.
    pub async fn carry_out(&self, steps: Vec<Step>, memory: &mut Memory, now: u64) {
        let acts = steps.into_iter().map(|step| async move {
            let result = self.act(&step).await;
            (step, result)
        });
        let done: Vec<_> = futures::stream::iter(acts)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (step, result) in done {
            self.note(step, result, memory, now);
        }
    }

    fn note(&self, step: Step, result: Result<Opened, ApplyError>, memory: &mut Memory, now: u64) {
        let (pod, uid) = match &step {
            Step::Open { pod, gate, .. } | Step::Prefer { pod, gate, .. } => (pod, &gate.uid),
            Step::Replace { pod, uid, .. } => (pod, uid),
        };
        match result {
            Ok(Opened::Outdated) => tracing::debug!(pod = %pod, "the pod has changed meanwhile"),
            Ok(Opened::Done) => self.done(step, memory, now),
            Err(error) if error.is_harmless() => tracing::debug!(pod = %pod, "{error}"),
            Err(error) => {
                tracing::warn!("{error}");
                self.metrics.failed(error.class());
                memory.put_off(uid, now.saturating_add(WAIT_MS));
            }
        }
    }

    fn done(&self, step: Step, memory: &mut Memory, now: u64) {
        match step {
            Step::Open {
                gate,
                node,
                gpu,
                reason,
                waited_ms,
                ..
            } => {
                self.metrics.wrote("gate");
                self.metrics.opened(reason, waited_ms as f64 / 1e3);
                memory.note_opened(&gate.uid, node, gpu, now);
            }
            Step::Prefer {
                gate,
                nodes,
                waited_ms,
                ..
            } => {
                let reason = if nodes.is_empty() {
                    "unplanned"
                } else {
                    "preferred"
                };
                self.metrics.wrote("gate");
                self.metrics.opened(reason, waited_ms as f64 / 1e3);
                memory.put_off(&gate.uid, now.saturating_add(WAIT_MS));
            }
            Step::Replace { pod, uid, node, .. } => {
                tracing::info!(pod = %pod, node, "replaced a pod that its node does not take");
                self.metrics.wrote("replace");
                self.metrics.replaced();
                memory.put_off(&uid, now.saturating_add(WAIT_MS));
            }
        }
    }

    async fn act(&self, step: &Step) -> Result<Opened, ApplyError> {
        let remaining = self.leadership.remaining();
        if remaining.is_none_or(|left| left < REQUEST) {
            return Err(ApplyError::NotLeading);
        }
        let (pod, written) = match step {
            Step::Open {
                pod,
                gate,
                node,
                gpu,
                ..
            } => {
                let patch = gate.opening(node.as_deref(), gpu.as_deref());
                let write = open(&self.client, pod, patch);
                (pod, timeout(REQUEST, write).await)
            }
            Step::Prefer {
                pod, gate, nodes, ..
            } => {
                let write = open(&self.client, pod, gate.preferring(nodes));
                (pod, timeout(REQUEST, write).await)
            }
            Step::Replace {
                pod, uid, version, ..
            } => {
                let write = self.replace(pod, uid, version.clone());
                (pod, timeout(REQUEST, write).await)
            }
        };
        let written = written.map_err(|_| ApplyError::Timeout { limit: REQUEST })?;
        written.map_err(|error| ApplyError::of("pod", pod, error))
    }

    async fn replace(
        &self,
        pod: &Key,
        uid: &str,
        version: Option<String>,
    ) -> Result<Opened, kube::Error> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: version,
            }),
            ..DeleteParams::default()
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        match api.delete(&pod.name, &parameters).await {
            Ok(_) => Ok(Opened::Done),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Opened::Outdated)
            }
            Err(error) => Err(error),
        }
    }
}
