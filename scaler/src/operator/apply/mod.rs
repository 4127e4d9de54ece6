//! Execution of plans, while this replica leads.

mod error;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::plan::{Action, FunctionPlan, Plan};
use crate::labels;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::state::Key;
pub use error::ApplyError;

/// Timeout of one write. No write begins with less of the lease left.
const REQUEST: Duration = Duration::from_secs(5);
/// Number of functions that are written concurrently.
const AT_ONCE: usize = 8;
/// Wait of a function after an error, doubled with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait.
const MOST_WAIT: Duration = Duration::from_mins(2);

/// Writes to the API server.
pub struct Applier {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    waiting: BTreeMap<Key, Waiting>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    errors: u32,
    until: Instant,
}

impl Applier {
    /// Creates an applier that writes with `client` while `leadership` lasts.
    pub fn new(client: Client, leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        let reporter = Reporter::from(labels::MANAGER);
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            leadership,
            metrics,
            waiting: BTreeMap::new(),
        }
    }

    /// Executes the due actions of `plan`; the rest is planned again. Returns the number of
    /// functions that failed.
    pub async fn carry_out(&mut self, plan: &Plan) -> usize {
        let now = Instant::now();
        let present = |key: &Key| {
            plan.functions
                .iter()
                .any(|function| function.record.key == *key)
        };
        self.waiting.retain(|key, _| present(key));
        let this = &*self;
        let is_due = |one: &&FunctionPlan| {
            let waiting = this.waiting.get(&one.record.key);
            !one.actions.is_empty() && waiting.is_none_or(|waiting| waiting.until <= now)
        };
        let due: Vec<_> = (plan.functions.iter().filter(is_due))
            .map(|entry| async move { (entry.record.key.clone(), this.function(entry).await) })
            .collect();
        let done: Vec<_> = futures::stream::iter(due)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut failed = 0_usize;
        for (key, result) in done {
            match result {
                Ok(()) => drop(self.waiting.remove(&key)),
                Err(error) if error.is_harmless() => tracing::debug!(function = %key, "{error}"),
                Err(error) => {
                    failed = failed.saturating_add(1);
                    tracing::warn!(function = %key, "{error}");
                    self.metrics.failed(error.class());
                    self.wait(key);
                }
            }
        }
        failed
    }

    /// Executes the actions in order, as later ones rely on earlier ones.
    async fn function(&self, plan: &FunctionPlan) -> Result<(), ApplyError> {
        for action in &plan.actions {
            let function = &plan.record.key;
            let span = tracing::debug_span!("write", %function, action = action.name());
            let done = self.within(self.act(plan, action)).instrument(span).await;
            if let Err(error) = done {
                if !error.is_harmless() {
                    self.report_failure(plan, &error).await;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs a write that ends before another replica may lead.
    async fn within<T>(
        &self,
        write: impl Future<Output = Result<T, ApplyError>>,
    ) -> Result<T, ApplyError> {
        if self
            .leadership
            .remaining()
            .is_none_or(|left| left < REQUEST)
        {
            return Err(ApplyError::NotLeading);
        }
        let written = tokio::time::timeout(REQUEST, write).await;
        written.unwrap_or(Err(ApplyError::Timeout { limit: REQUEST }))
    }

    async fn report_failure(&self, plan: &FunctionPlan, error: &ApplyError) {
        let Some(status) = error::failed_status(plan, error) else {
            return;
        };
        let action = Action::Status(Box::new(status));
        if let Err(error) = self.within(self.act(plan, &action)).await {
            tracing::debug!(function = %plan.record.key, "status: {error}");
        }
    }

    fn wait(&mut self, key: Key) {
        let errors = self.waiting.get(&key).map_or(0, |waiting| waiting.errors);
        let span = FIRST_WAIT.saturating_mul(1_u32.checked_shl(errors).unwrap_or(u32::MAX));
        let span = span.min(MOST_WAIT).mul_f64(rand::random_range(0.5..1.0));
        let now = Instant::now();
        let waiting = Waiting {
            errors: errors.saturating_add(1).min(16),
            until: now.checked_add(span).unwrap_or(now),
        };
        self.waiting.insert(key, waiting);
    }
}
