//! Asking for the lease, again and again.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::{Instant, sleep, timeout};

use super::record::{Seen, may_take, released, taken};
use super::{Leadership, LeaseError, Timing};

/// Which lease, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who asks: different for each replica.
    pub identity: String,
}

/// Asks for a lease and keeps it.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    names: Names,
    timing: Timing,
    leadership: Leadership,
    seen: Option<Seen>,
    /// The lease as this replica wrote it last.
    held: Option<Lease>,
}

impl Elector {
    /// Nothing is asked for yet.
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

    /// What it has achieved, now and later.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Keeps asking until `stop` is done. `failed` is told of what goes wrong.
    pub async fn run(&mut self, stop: impl Future<Output = ()>, failed: impl Fn(&LeaseError)) {
        tokio::pin!(stop);
        loop {
            if let Err(error) = self.ask().await {
                tracing::warn!("{error}");
                failed(&error);
            }
            // Replicas that ask at the same time would do so for ever.
            let jitter = rand::random_range(0.8..1.0);
            tokio::select! {
                () = &mut stop => return,
                () = sleep(self.timing.period().mul_f64(jitter)) => {}
            }
        }
    }

    /// Asks once. Whether this replica leads then is for [`leadership`](Self::leadership) to say.
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

    /// Gives the lease back, so that nobody has to wait. Only when nothing is being done any more.
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
            // Somebody else has it already.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            Ok(Err(source)) => Err(self.error(source)),
            Ok(Ok(_)) => Ok(()),
            Err(_) => {
                let lease = self.lease();
                Err(LeaseError::Timeout { lease, limit })
            }
        }
    }

    /// The lease as it was written, or nothing if it is another's.
    async fn exchange(&mut self) -> Result<Option<Lease>, kube::Error> {
        let parameters = PostParams::default();
        let written = match self.api.get_opt(&self.names.name).await? {
            None => {
                let lease = taken(self.unwritten(), &self.names.identity, self.timing);
                self.api.create(&parameters, &lease).await
            }
            Some(lease) => {
                let now = Instant::now();
                let seen = Seen::after(self.seen.take(), &lease, now);
                let may = may_take(&lease, &seen, &self.names.identity, now);
                self.seen = Some(seen);
                if !may {
                    return Ok(None);
                }
                let lease = taken(lease, &self.names.identity, self.timing);
                let name = &self.names.name;
                self.api.replace(name, &parameters, &lease).await
            }
        };
        match written {
            Ok(lease) => Ok(Some(lease)),
            // Another replica was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn unwritten(&self) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(self.names.name.clone()),
                namespace: Some(self.names.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        }
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.names.namespace, self.names.name)
    }

    fn error(&self, source: kube::Error) -> LeaseError {
        LeaseError::Api {
            lease: self.lease(),
            source: Box::new(source),
        }
    }
}
