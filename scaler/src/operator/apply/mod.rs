//! Execution of plans, while this replica leads.

mod back_off;
mod error;
mod writes;

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
pub(in crate::operator) use back_off::BackOff;
pub use error::ApplyError;

/// Timeout of one write. No write begins with less of the lease left.
const REQUEST: Duration = Duration::from_secs(5);
/// Number of functions that are written concurrently.
const AT_ONCE: usize = 8;

/// Writes to the API server.
pub struct Applier {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    waiting: BackOff,
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
            waiting: BackOff::default(),
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
        self.waiting.retain(present);
        let this = &*self;
        let is_due = |one: &&FunctionPlan| {
            !one.actions.is_empty() && this.waiting.is_due(&one.record.key, now)
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
                Ok(()) => self.waiting.succeeded(&key),
                Err(error) if error.is_harmless() => tracing::debug!(function = %key, "{error}"),
                Err(error) => {
                    failed = failed.saturating_add(1);
                    tracing::warn!(function = %key, "{error}");
                    self.metrics.failed(error.class());
                    self.waiting.failed(key);
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
            let done = within(&self.leadership, self.act(plan, action))
                .instrument(span)
                .await;
            if let Err(error) = done {
                if !error.is_harmless() {
                    self.report_failure(plan, &error).await;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    async fn report_failure(&self, plan: &FunctionPlan, error: &ApplyError) {
        let Some(status) = error::failed_status(plan, error) else {
            return;
        };
        let action = Action::Status(Box::new(status));
        if let Err(error) = within(&self.leadership, self.act(plan, &action)).await {
            tracing::debug!(function = %plan.record.key, "status: {error}");
        }
    }
}

/// Runs a write that ends before another replica may lead.
pub(in crate::operator) async fn within<T>(
    leadership: &Leadership,
    write: impl Future<Output = Result<T, ApplyError>>,
) -> Result<T, ApplyError> {
    if leadership.remaining().is_none_or(|left| left < REQUEST) {
        return Err(ApplyError::NotLeading);
    }
    let written = tokio::time::timeout(REQUEST, write).await;
    written.unwrap_or(Err(ApplyError::Timeout { limit: REQUEST }))
}
