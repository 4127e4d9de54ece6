//! A client keeps a model on the node.

use std::os::fd::AsFd as _;

use tetris_store_layout::TrustDomain;
use tetris_wire::daemon::{ErrorCode, IngestReason, IngestRefusal, Message, ModelReport};

use super::connection::{Client, Next};
use super::frames::{Ended, Frames};
use crate::models::{KeeperHandle, KeeperOrder, ModelKey};

impl Client {
    /// Takes note that the client keeps a model in its domain.
    pub(super) fn keep(
        &self,
        domain: Option<TrustDomain>,
        name: String,
    ) -> Result<KeeperHandle, Message> {
        let domain = domain.ok_or_else(|| {
            let text = "this client has no trust domain, so no pod would take its word for a model (LAYOUT.md 4)";
            Message::IngestRefused(IngestRefusal {
                reason: IngestReason::NO_DOMAIN,
                text: text.to_owned(),
            })
        })?;
        Ok(self.models.keep(ModelKey {
            store: self.target.name.clone(),
            domain,
            name,
        }))
    }

    /// Takes note of the priority of a keeper's model.
    pub(super) fn rank(&self, keeper: Option<&KeeperHandle>, priority: u32) -> (Message, Next) {
        let Some(keeper) = keeper else {
            let text = "KeepModel comes first".to_owned();
            return (self.error(ErrorCode::OUT_OF_TURN, text), Next::Hangup);
        };
        keeper.rank(priority);
        (Message::ModelNoted, Next::Another)
    }

    /// Takes note of how far a keeper is, and has it answer for the next mount, if there is one.
    pub(super) async fn note_model(
        &self,
        frames: &mut Frames,
        keeper: Option<&KeeperHandle>,
        report: ModelReport,
    ) -> Result<(Message, Next), Ended> {
        let Some(keeper) = keeper else {
            let text = "KeepModel comes first".to_owned();
            let error = self.error(ErrorCode::OUT_OF_TURN, text);
            return Ok((error, Next::Hangup));
        };
        let order = tokio::select! {
            order = keeper.report(report) => order,
            early = frames.disturbed() => return self.interrupted(early),
        };
        let order = match order {
            None => return Ok((Message::ModelNoted, Next::Another)),
            Some(KeeperOrder::Yield) => return Ok((Message::YieldModel, Next::Another)),
            Some(KeeperOrder::Mount(order)) => order,
        };
        let message = Message::ServeModel { mount: order.mount };
        frames
            .send_with(&message.encode(), order.device.as_fd())
            .await?;
        order.taken();
        Ok((message, Next::Silent))
    }
}
