//! Errors of writes.

use std::time::Duration;

use thiserror::Error;

use crate::account::refused_account;
use crate::load::chain;
use crate::operator::plan::{Action, FunctionPlan};
use crate::resources::InferenceFunctionStatus;
use crate::state::Key;

/// The reason a write did not happen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Another replica leads, or soon may.
    #[error("this replica does not lead for long enough")]
    NotLeading,
    /// The plan's view is outdated; the next pass sees the new version.
    #[error("{0} has changed meanwhile")]
    Outdated(String),
    /// An object of the same name that has another owner.
    #[error(
        "{kind} {key} is not owned by this {owner}; rename it or the {owner}, or delete it (one of a deleted {owner} goes by itself)"
    )]
    Foreign {
        /// Kind of the object.
        kind: &'static str,
        /// Its namespace and name.
        key: Key,
        /// Word for the expected owner.
        owner: &'static str,
    },
    /// No answer in time.
    #[error("no answer from the API server within {} s", limit.as_secs_f64())]
    Timeout {
        /// Timeout.
        limit: Duration,
    },
    /// The operator has no right to write in this namespace.
    #[error(
        "{what}: {}; let the scaler write there: kubectl create rolebinding {role} --clusterrole={role} --serviceaccount={account} -n {namespace}",
        plain(source)
    )]
    NoRight {
        /// Object of the write.
        what: String,
        /// Namespace of the object.
        namespace: String,
        /// Namespace and name of the operator's account.
        account: String,
        /// The role with the right.
        role: &'static str,
        /// The refusal.
        source: Box<kube::Error>,
    },
    /// A refusal of the API server, or no connection to it.
    #[error("{what}: {}", plain(source))]
    Api {
        /// Object of the write.
        what: String,
        /// Cause.
        source: Box<kube::Error>,
    },
}

impl ApplyError {
    /// Returns true if the next pass needs no wait.
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::NotLeading | Self::Outdated(_))
    }

    /// Class of the error in the metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::Outdated(_) => "outdated",
            Self::Foreign { .. } => "foreign_object",
            Self::Timeout { .. } => "api_timeout",
            Self::NoRight { .. } => "api_forbidden",
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if status.code == 403 => "api_forbidden",
                kube::Error::Api(status) if status.code < 500 => "api_refused",
                kube::Error::Api(_) => "api_failed",
                _ => "api_unreachable",
            },
        }
    }

    /// Converts a failed write into a function's namespace, with the word for the object's kind.
    pub(in crate::operator) fn of(kind: &str, key: &Key, source: kube::Error) -> Self {
        Self::of_role(kind, key, "tetris-scaler-namespace", source)
    }

    /// Converts a failed write that takes the rights of `role` in a namespace.
    pub(in crate::operator) fn of_role(
        kind: &str,
        key: &Key,
        role: &'static str,
        source: kube::Error,
    ) -> Self {
        let what = format!("{kind} {key}");
        match &source {
            kube::Error::Api(status) if lacks_a_right(status.code, &status.message) => {
                Self::NoRight {
                    what,
                    namespace: key.namespace.clone(),
                    account: refused_account(&status.message, "tetris-scaler"),
                    role,
                    source: Box::new(source),
                }
            }
            _ => Self::of_request(what, source),
        }
    }

    /// Converts a failed request that takes no right in the namespace.
    pub(in crate::operator) fn of_request(what: String, source: kube::Error) -> Self {
        match &source {
            kube::Error::Api(status) if status.code == 409 => Self::Outdated(what),
            _ => Self::Api {
                what,
                source: Box::new(source),
            },
        }
    }
}

/// Returns the planned status, or else the last one, with `error` in it. Returns `None` if the last
/// status already shows it, or if neither has conditions.
pub(super) fn failed_status(
    plan: &FunctionPlan,
    error: &ApplyError,
) -> Option<InferenceFunctionStatus> {
    let mut planned = plan.actions.iter().filter_map(|action| match action {
        Action::Status(status) => Some(status.as_ref()),
        _ => None,
    });
    let last = &plan.record.status;
    let mut status = planned.next().unwrap_or(last).clone();
    // The planned numbers were not reached.
    status.instances = last.instances;
    status.configurations.clone_from(&last.configurations);
    let message: String = error.to_string().chars().take(1_000).collect();
    let mut conditions = status.conditions.iter_mut();
    let progressing = conditions.find(|condition| condition.r#type == "Progressing")?;
    "WriteFailed".clone_into(&mut progressing.reason);
    progressing.message.clone_from(&message);
    status.message = Some(message);
    (status != *last).then_some(status)
}

/// Returns true for a refusal by authorization: quotas and other admission answer 403 as well, in
/// other words.
fn lacks_a_right(code: u16, message: &str) -> bool {
    code == 403 && message.contains(" cannot ") && message.contains(" resource ")
}

/// Formats an error for a condition, without the full answer that the client adds.
fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            let (code, reason, message) = (status.code, &status.reason, &status.message);
            format!("the API server answered {code} {reason}: {message}")
        }
        other => chain(other),
    }
}
