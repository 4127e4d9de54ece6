//! Errors of a pass, with the next step.

use thiserror::Error;

use super::owner::{OWNER_LABEL, OWNER_VALUE};
use crate::certificates::{Flaw, IssueError};
use crate::metrics::SyncErrorClass;

/// The reason a pass failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The API server did not do as asked.
    #[error("cannot {doing}: {source}; {}", next_step(source))]
    Api {
        /// The request.
        doing: String,
        /// Cause.
        source: Box<kube::Error>,
    },
    /// Another replica was faster.
    #[error("another replica wrote {object} meanwhile; reading again")]
    Raced {
        /// The object that it wrote.
        object: String,
    },
    /// There is no webhook configuration.
    #[error(
        "MutatingWebhookConfiguration `{name}` does not exist, so no pod is injected; apply the webhook's manifests, or give its name with --configuration"
    )]
    NoConfiguration {
        /// The name.
        name: String,
    },
    /// The webhook configuration has webhooks for other services alone.
    #[error(
        "MutatingWebhookConfiguration `{name}` has no webhook with the service {service}, so no pod is injected; correct its clientConfig.service, or --service and --namespace"
    )]
    NoWebhook {
        /// The configuration's name.
        name: String,
        /// Namespace and name of the service.
        service: String,
    },
    /// There is no secret, and none is created: the right to do so cannot be limited to a name.
    #[error(
        "Secret `{namespace}/{name}` does not exist, and the webhook creates none; apply the webhook's manifests, or create an empty one with the label {OWNER_LABEL}={OWNER_VALUE}"
    )]
    NoSecret {
        /// The secret's namespace.
        namespace: String,
        /// The secret's name.
        name: String,
    },
    /// The secret is someone else's.
    #[error(
        "Secret `{namespace}/{name}` lacks the label {OWNER_LABEL}={OWNER_VALUE}, so it is left alone; name another with --secret, or let the webhook have it: kubectl label secret -n {namespace} {name} {OWNER_LABEL}={OWNER_VALUE}"
    )]
    NotOurs {
        /// The secret's namespace.
        namespace: String,
        /// The secret's name.
        name: String,
    },
    /// Certificates could not be made.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// Certificates that were made cannot be used.
    #[error("certificates just made cannot be used: {0}")]
    Flaw(#[from] Flaw),
}

impl SyncError {
    pub(super) fn api(doing: String, source: kube::Error) -> Self {
        let source = Box::new(source);
        Self::Api { doing, source }
    }

    /// Class of the error.
    pub fn class(&self) -> SyncErrorClass {
        match self {
            Self::Api { .. } => SyncErrorClass::Api,
            Self::Raced { .. } => SyncErrorClass::Conflict,
            Self::NoConfiguration { .. }
            | Self::NoWebhook { .. }
            | Self::NoSecret { .. }
            | Self::NotOurs { .. } => SyncErrorClass::Configuration,
            Self::Issue(_) | Self::Flaw(_) => SyncErrorClass::Certificate,
        }
    }
}

/// The code of the API server's answer.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

fn next_step(error: &kube::Error) -> &'static str {
    match code(error) {
        Some(401) => "check the token of the webhook's service account",
        Some(403) => "allow it to the webhook's service account",
        Some(404) => "check that the namespace exists",
        Some(422) => {
            "check that the object may be changed (`immutable`, ValidatingAdmissionPolicies)"
        }
        Some(429) => "none needed, unless it stays: the API server is overloaded",
        _ => "check that this pod reaches the API server",
    }
}
