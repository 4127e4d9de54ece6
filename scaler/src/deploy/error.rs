//! Errors of `deploy`.

use std::time::Duration;

use thiserror::Error;

use crate::resources::FieldProblem;

/// The reason that a model is not deployed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeployError {
    /// A source that nodes cannot fetch.
    #[error(
        "expected a source that nodes can fetch: hf://, s3://, gs://, az://, oci:// or https://, found `{0}`; a folder of this machine goes to a registry first: tetris push FOLDER --to oci://REGISTRY/REPO:TAG"
    )]
    Source(String),
    /// A name that a Model cannot have.
    #[error(
        "--name: expected at most 52 lowercase letters, digits and hyphens, found `{0}`; give one with --name"
    )]
    Name(String),
    /// A wrong field of the resources.
    #[error(transparent)]
    Field(FieldProblem),
    /// Another deployment of that name.
    #[error(
        "{kind} {namespace}/{name} has the source {found}, and not {expected}; choose another --name, or replace it with --replace"
    )]
    Taken {
        /// Kind of the resource.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its present source.
        found: String,
        /// The given source.
        expected: String,
    },
    /// A resource that others made by hand.
    #[error(
        "{kind} {namespace}/{name} was not made by this command; choose another --name, or replace it with --replace"
    )]
    Foreign {
        /// Kind of the resource.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A refusal of the API server.
    #[error("{what}: {source}")]
    Api {
        /// Object of the request.
        what: String,
        /// Cause.
        source: Box<kube::Error>,
    },
    /// An operator that does not know the resources.
    #[error(
        "{what}: the cluster does not know this resource; install the scaler first: kubectl apply -k deploy/overlays/scaler"
    )]
    NotInstalled {
        /// Object of the request.
        what: String,
    },
    /// A state that does not end by waiting.
    #[error("{reason}: {message}")]
    Stopped {
        /// The reason in one word.
        reason: String,
        /// The reason in a sentence.
        message: String,
    },
    /// No end in time.
    #[error(
        "not ready within {} s: {state}; the operator goes on: kubectl describe inferencefunction {name} -n {namespace}",
        limit.as_secs()
    )]
    Timeout {
        /// Longest wait.
        limit: Duration,
        /// The last state.
        state: String,
        /// Namespace of the function.
        namespace: String,
        /// Name of the function.
        name: String,
    },
}
