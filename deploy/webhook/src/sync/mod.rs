//! Keeps the cluster's objects true: the secret with the certificates, and the authorities in the webhook configuration.
//!
//! Flow, at each pass: read the webhook configuration, then the secret; plan; write the secret; write the configuration;
//! serve the certificate.
//!
//! Guarantees:
//! - Replicas agree: a write holds only if no one wrote since the read, and who comes second reads again.
//! - A certificate is served only when the configuration has its authority, and an authority is never taken out by what
//!   an older secret has: the configuration is read first, so when its write holds, the secret was not older.
//! - What is served goes on when the API server cannot be reached.
//!
//! - Nothing is written but `data` of the secret and `caBundle` of the configuration, and nothing is
//!   created: admission policies hold the account to that.
//!
//! Assumption: one secret and one configuration are these replicas' alone; the manifests have both.
//!
//! Caveat: changes by others are noticed after [`INTERVAL`]; no watch is held for two objects that change twice a year.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::DefaultBackoff;
use kube::{Api, Client};

use crate::certificates::{self, Action, Clock, Contents, Serving};
use crate::metrics::{Metrics, SyncErrorClass};
use crate::readiness::Readiness;

mod client;
mod configuration;
mod error;
mod owner;
mod secret;

pub use client::{ClientError, client};
pub use error::SyncError;
pub use owner::{OWNER_LABEL, OWNER_VALUE};

/// Between two looks when all is well.
pub const INTERVAL: Duration = Duration::from_mins(1);
/// The longest wait between attempts, if kube's backoff should end: it does not.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Names of the objects in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The namespace of service and secret.
    pub namespace: String,
    /// The service by which the API server comes.
    pub service: String,
    /// The secret.
    pub secret: String,
    /// The webhook configuration.
    pub configuration: String,
}

impl Names {
    /// Returns the host name by which the API server reaches the webhook.
    pub fn server(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

/// Keeps the objects true.
pub struct Sync {
    names: Names,
    secrets: Api<Secret>,
    configurations: Api<MutatingWebhookConfiguration>,
    serving: Arc<Serving>,
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl Sync {
    /// For the objects called `names`; certificates go to `serving`.
    pub fn new(
        client: Client,
        names: Names,
        serving: Arc<Serving>,
        readiness: Arc<Readiness>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &names.namespace),
            configurations: Api::all(client),
            names,
            serving,
            readiness,
            metrics,
            clock,
        }
    }

    /// Makes passes until `stop` is done. Errors do not end it.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        // Stopping anywhere is safe: each write is complete by itself.
        tokio::select! {
            () = stop => {}
            () = self.passes() => {}
        }
    }

    async fn passes(&self) {
        let mut backoff = DefaultBackoff::default();
        loop {
            let wait = match self.pass().await {
                Ok(()) => {
                    backoff = DefaultBackoff::default();
                    INTERVAL.mul_f64(rand::random_range(0.9..1.1))
                }
                Err(error) => {
                    self.report(&error);
                    backoff.next().unwrap_or(BACKOFF_MAX)
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// One pass.
    pub async fn pass(&self) -> Result<(), SyncError> {
        let configuration = configuration::read(&self.configurations, &self.names).await?;
        let contents = self.contents().await?;
        let authorities = contents.authorities?;
        let leaf = contents.leaf?;
        let bundle = certificates::bundle(&authorities);
        configuration::write(&self.configurations, &self.names, &configuration, &bundle).await?;
        if self.serving.install(&leaf) {
            let expires = leaf.validity.not_after;
            tracing::info!(expires, "serving a certificate (seconds since 1970)");
        }
        self.metrics
            .expires(leaf.validity.not_after, authorities.validity.not_after);
        self.readiness.synced();
        Ok(())
    }

    /// Returns the contents of the secret, after the necessary action on it.
    async fn contents(&self) -> Result<Contents, SyncError> {
        let stored = secret::read(&self.secrets, &self.names).await?;
        let contents = Contents::read(secret::data(&stored));
        let (now, server) = ((self.clock)(), self.names.server());
        let plan = certificates::plan(now, &contents, &server);
        let Some(reason) = plan.reason.filter(|_| plan.action != Action::Keep) else {
            return Ok(contents);
        };
        let action = plan.action;
        tracing::info!(action = action.name(), secret = %self.names.secret, "making certificates: {reason}");
        let Some(data) = certificates::apply(action, now, contents, &server)? else {
            return Err(reason.into());
        };
        let contents = Contents::read(&data);
        secret::write(&self.secrets, &self.names, stored, data).await?;
        self.metrics.issued(action);
        Ok(contents)
    }

    fn report(&self, error: &SyncError) {
        self.metrics.failed(error.class());
        self.readiness.failed(error.to_string());
        if error.class() == SyncErrorClass::Conflict {
            tracing::info!("{error}");
        } else {
            tracing::warn!("{error}");
        }
    }
}
