//! Elector: acquires and renews the lease.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep, timeout};

use super::record::{Seen, may_take, released, taken};
use super::{Leadership, LeaseError, Timing};

/// Name of the lease, and identity of this replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Identity of this replica, unique among replicas.
    pub identity: String,
}

/// Acquires a lease and keeps it.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    names: Names,
    timing: Timing,
    leadership: Leadership,
    seen: Option<Seen>,
    /// The lease as this replica last wrote it.
    held: Option<Lease>,
}

impl Elector {
    /// Creates an elector that has not requested the lease yet.
    pub fn new(client: kube::Client, names: Names, timing: Timing) -> Self {
        Self {
            api: Api::namespaced(client, &names.namespace),
            names,
            timing,
            leadership: Leadership::default(),
            seen: None,
            held: None,
        }
    }

    /// Returns a handle to this replica's leadership, kept up to date.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Requests the lease periodically until `stop` completes, and calls `failed` on each error.
    pub async fn run(&mut self, stop: impl Future<Output = ()>, failed: impl Fn(&LeaseError)) {
        tokio::pin!(stop);
        loop {
            if let Err(error) = self.ask().await {
                tracing::warn!("{error}");
                failed(&error);
            }
            // Without jitter, replicas in step would stay in step.
            let jitter = rand::random_range(0.8..1.0);
            tokio::select! {
                () = &mut stop => return,
                () = sleep(self.timing.period().mul_f64(jitter)) => {}
            }
        }
    }

    /// Requests the lease once. [`leadership`](Self::leadership) has the result.
    ///
    /// # Errors
    ///
    /// Fails if there is no lease, or the API server refuses the request or does not answer in time.
    pub async fn ask(&mut self) -> Result<(), LeaseError> {
        let began = Instant::now();
        let limit = self.timing.request();
        let asked = timeout(limit, self.exchange()).await;
        let written = asked.map_err(|_| LeaseError::Timeout {
            lease: self.lease(),
            limit,
        })?;
        let led = self.leadership.leads();
        self.held = written.map_err(|source| self.error(source))?;
        if self.held.is_some() {
            let span = self.timing.duration().saturating_sub(self.timing.margin());
            self.leadership.set(began.checked_add(span));
        } else {
            self.leadership.set(None);
        }
        match (led, self.held.is_some()) {
            (false, true) => tracing::info!(lease = self.lease(), "leading"),
            (true, false) => tracing::warn!(lease = self.lease(), "another replica leads"),
            _ => {}
        }
        Ok(())
    }

    /// Releases the lease, so that the next holder need not wait. Call it only once this replica
    /// does nothing any more.
    ///
    /// # Errors
    ///
    /// Fails if the API server refuses the request or does not answer in time.
    pub async fn release(&mut self) -> Result<(), LeaseError> {
        self.leadership.set(None);
        let Some(lease) = self.held.take() else {
            return Ok(());
        };
        let limit = self.timing.request();
        let lease = released(lease);
        let parameters = PostParams::default();
        let replaced = self.api.replace(&self.names.name, &parameters, &lease);
        match timeout(limit, replaced).await {
            // Another replica holds it already.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            Ok(Err(source)) => Err(self.error(source)),
            Ok(Ok(_)) => Ok(()),
            Err(_) => {
                let lease = self.lease();
                Err(LeaseError::Timeout { lease, limit })
            }
        }
    }

    /// Returns the lease as written, or `None` if another replica holds it.
    async fn exchange(&mut self) -> Result<Option<Lease>, kube::Error> {
        let parameters = PostParams::default();
        let name = &self.names.name;
        let lease = self.api.get(name).await?;
        let now = Instant::now();
        let seen = Seen::after(self.seen.take(), &lease, now);
        let may = may_take(&lease, &seen, &self.names.identity, now);
        self.seen = Some(seen);
        if !may {
            return Ok(None);
        }
        let lease = taken(lease, &self.names.identity, self.timing);
        match self.api.replace(name, &parameters, &lease).await {
            Ok(lease) => Ok(Some(lease)),
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.names.namespace, self.names.name)
    }

    fn error(&self, source: kube::Error) -> LeaseError {
        let lease = self.lease();
        match source {
            kube::Error::Api(status) if status.code == 404 => LeaseError::Missing { lease },
            source => LeaseError::Api {
                lease,
                source: Box::new(source),
            },
        }
    }
}
