//! Trust domains of clients, derived objects that they have recorded, and turns to make one.

use tetris_store_layout::TrustDomain;
use tetris_wire::daemon::{
    BuildRequest, DerivedClaim, ErrorCode, IngestReason, IngestRefusal, Message,
};
use tokio::time::timeout;

use super::connection::{Client, Next};
use super::frames::{Descriptors, Ended, Frames};
use crate::ingest::MAX_TURN;

impl Client {
    /// Finds the client's domain: of a pod by its mount of the store, of another process by its user.
    pub(super) async fn domain(
        &self,
        descriptors: Descriptors,
    ) -> Result<Option<TrustDomain>, Message> {
        let count = descriptors.found;
        let (Some(header), Some(broker)) = (descriptors.only, &self.broker) else {
            let text =
                format!("a question for the domain comes with one descriptor, found {count}");
            return Err(self.error(ErrorCode::MALFORMED, text));
        };
        if !self.is_pod {
            return Ok(Some(TrustDomain::User(self.peer.uid)));
        }
        let domain = broker.domain_of(self.target.clone(), header).await;
        domain.map_err(Message::IngestRefused)
    }

    /// Gives the client its turn to make a derived object, until it hangs up.
    pub(super) async fn take_turn(
        &self,
        frames: &mut Frames,
        domain: Option<TrustDomain>,
        request: BuildRequest,
    ) -> Result<(Message, Next), Ended> {
        let Some(broker) = &self.broker else {
            let text = "this daemon takes no files".to_owned();
            let refusal = IngestRefusal {
                reason: IngestReason::UNAVAILABLE,
                text,
            };
            return Ok((Message::IngestRefused(refusal), Next::Another));
        };
        let _turn = match broker.turn(&self.target.name, domain, request) {
            Ok(turn) => turn,
            Err(refusal) => return Ok((Message::IngestRefused(refusal), Next::Another)),
        };
        frames.send(&Message::TurnTaken.encode()).await?;
        // Hanging up, and any byte, ends it.
        let _ended = timeout(MAX_TURN, frames.disturbed()).await;
        Err(Ended::Closed)
    }

    /// Has a derived tensor recorded, and answers when it is.
    pub(super) async fn record(
        &self,
        frames: &mut Frames,
        domain: Option<TrustDomain>,
        claim: DerivedClaim,
    ) -> Result<(Message, Next), Ended> {
        let Some(broker) = &self.broker else {
            let refusal = IngestRefusal {
                reason: IngestReason::UNAVAILABLE,
                text: "this daemon takes no files".to_owned(),
            };
            return Ok((Message::IngestRefused(refusal), Next::Another));
        };
        let (target, peer) = (self.target.clone(), self.peer);
        match broker.record(target, peer, domain, claim).await {
            Ok(mut ticket) => self.follow(frames, &mut ticket).await,
            Err(refusal) => Ok((Message::IngestRefused(refusal), Next::Another)),
        }
    }
}
