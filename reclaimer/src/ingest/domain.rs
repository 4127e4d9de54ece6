//! The trust domain of a client, by the mount through which it reached the store, and requests that need one.

use std::sync::Arc;

use tetris_store_layout::{DerivedKey, DerivedRecord, TrustDomain};
use tetris_wire::Peer;
use tetris_wire::daemon::{BuildRequest, DerivedClaim, IngestReason, IngestRefusal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::broker::{Broker, Ticket};
use super::turns::BuildTurn;
use super::{IngestRequest, PassedFile, TargetStore, refusal};

impl Broker {
    /// The domain of the mount through which the passed header of the store was opened. A descriptor
    /// may be of any file system, so a thread looks at it that may hang.
    ///
    /// # Errors
    /// When the descriptor cannot be looked at in time.
    pub async fn domain_of(
        &self,
        target: TargetStore,
        header: PassedFile,
    ) -> Result<Option<TrustDomain>, IngestRefusal> {
        let failed = |text: String| refusal(IngestReason::UNAVAILABLE, text);
        let (reply, answer) = oneshot::channel();
        let thread = std::thread::Builder::new().name("domain".to_owned());
        let started = thread.spawn(move || {
            let _gone = reply.send(target.store.domain_of_mount(&header.file));
        });
        started.map_err(|error| failed(format!("the daemon cannot start a thread: {error}")))?;
        match timeout(self.stall(), answer).await {
            Ok(Ok(found)) => found.map_err(|error| failed(error.to_string())),
            Ok(Err(_)) => Err(failed(
                "the passed header could not be looked at".to_owned(),
            )),
            Err(_) => {
                let text = "the file system of the passed header does not answer";
                Err(refusal(IngestReason::STALLED, text))
            }
        }
    }

    /// Has a derived tensor recorded by the word of `domain`.
    ///
    /// # Errors
    /// When the client has no domain, or there are too many requests.
    pub async fn record(
        &self,
        target: TargetStore,
        peer: Peer,
        domain: Option<TrustDomain>,
        claim: DerivedClaim,
    ) -> Result<Ticket, IngestRefusal> {
        let Some(domain) = domain else {
            let text = "this client has no trust domain, so nobody would take its word (LAYOUT.md 4); the bytes themselves are shared";
            return Err(refusal(IngestReason::NO_DOMAIN, text));
        };
        let key = DerivedKey::new(claim.source, claim.transform, claim.version);
        let key = key.map_err(|error| refusal(IngestReason::INVALID, error.to_string()))?;
        let record = DerivedRecord {
            key: key.in_domain(domain),
            object: claim.object,
        };
        let request = IngestRequest::Derived(Arc::new(record));
        self.ask(target, peer, request, None).await
    }

    /// Gives a client of `domain` its turn to make a derived object of the store with the name `store`.
    ///
    /// # Errors
    /// When another client has the turn, the client has no domain, or the name is too long.
    pub fn turn(
        &self,
        store: &str,
        domain: Option<TrustDomain>,
        request: BuildRequest,
    ) -> Result<BuildTurn, IngestRefusal> {
        let domain = domain.ok_or_else(|| {
            let text = "this client has no trust domain, so nobody waits for what it makes";
            refusal(IngestReason::NO_DOMAIN, text)
        })?;
        let key = DerivedKey::new(request.source, request.transform, request.version);
        let key = key.map_err(|error| refusal(IngestReason::INVALID, error.to_string()))?;
        let turn = self.turns().take(store, key.in_domain(domain).id());
        turn.ok_or_else(|| refusal(IngestReason::BUSY, "another client makes it; ask again"))
    }
}
