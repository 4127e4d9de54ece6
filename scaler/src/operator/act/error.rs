//! What goes wrong with writes.

use std::time::Duration;

use thiserror::Error;

use crate::load::chain;
use crate::operator::plan::{Action, FunctionPlan};
use crate::resources::InferenceFunctionStatus;
use crate::state::Key;

/// Why something was not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ActError {
    /// Another replica leads, or soon may.
    #[error("this replica does not lead for long enough")]
    NotLeading,
    /// What was seen is old: the next pass sees what is new.
    #[error("{0} was written meanwhile")]
    Outdated(String),
    /// There is a Deployment of that name that is not the operator's.
    #[error(
        "Deployment {0} has not the labels of this function: it is somebody else's; rename it or the function"
    )]
    Foreign(Key),
    /// The API server took too long.
    #[error("no answer of the API server within {} s", limit.as_secs_f64())]
    Timeout {
        /// How long was waited.
        limit: Duration,
    },
    /// The API server refused or could not be reached.
    #[error("{what}: {}", plain(source))]
    Api {
        /// What was written.
        what: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
}

impl ActError {
    /// Whether the next pass may do without a wait.
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::NotLeading | Self::Outdated(_))
    }

    /// For the metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::Outdated(_) => "outdated",
            Self::Foreign(_) => "foreign_deployment",
            Self::Timeout { .. } => "api_timeout",
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if status.code == 403 => "api_forbidden",
                kube::Error::Api(status) if status.code < 500 => "api_refused",
                kube::Error::Api(_) => "api_failed",
                _ => "api_unreachable",
            },
        }
    }

    /// What a failed request for `what` means.
    pub(super) fn of(what: String, source: kube::Error) -> Self {
        match &source {
            kube::Error::Api(status) if status.code == 409 => Self::Outdated(what),
            _ => Self::Api {
                what,
                source: Box::new(source),
            },
        }
    }
}

/// The status that was planned, or else the last, and that `error` came in between. `None` if the last says so already, or
/// neither has conditions to say it in.
pub(super) fn failed_status(
    plan: &FunctionPlan,
    error: &ActError,
) -> Option<InferenceFunctionStatus> {
    let mut planned = plan.actions.iter().filter_map(|action| match action {
        Action::Status(status) => Some(status.as_ref()),
        _ => None,
    });
    let last = &plan.record.status;
    let mut status = planned.next().unwrap_or(last).clone();
    // What was planned is not so.
    status.instances = last.instances;
    status.configurations.clone_from(&last.configurations);
    let message: String = error.to_string().chars().take(1_000).collect();
    let mut conditions = status.conditions.iter_mut();
    let progressing = conditions.find(|one| one.r#type == "Progressing")?;
    "WriteFailed".clone_into(&mut progressing.reason);
    progressing.message.clone_from(&message);
    status.message = Some(message);
    (status != *last).then_some(status)
}

/// An error as people read it in a condition: the client adds all that it was answered.
fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            let (code, reason, message) = (status.code, &status.reason, &status.message);
            format!("the API server answers {code} {reason}: {message}")
        }
        other => chain(other),
    }
}
