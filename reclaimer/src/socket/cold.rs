//! A client wants a model back from the cold tier.

use std::time::Duration;

use tetris_store_layout::TrustDomain;
use tetris_wire::daemon::{IngestReason, IngestRefusal, Message};
use tokio::time::{MissedTickBehavior, interval};

use super::connection::{Client, Next};
use super::frames::{Ended, Frames};
use crate::cold::RestoreStage;

/// Time between two messages about how far a model is.
const TELL: Duration = Duration::from_millis(500);

impl Client {
    /// Has a model restored, and sends the client the progress meanwhile.
    pub(super) async fn restore_model(
        &self,
        frames: &mut Frames,
        domain: Option<TrustDomain>,
        source: String,
    ) -> Result<(Message, Next), Ended> {
        let Some(cold) = &self.cold else {
            return Ok(refused("this node has no cold tier"));
        };
        let domains = domain.into_iter().chain([TrustDomain::Owner]).collect();
        let Some(mut stages) = cold.restore(&self.target.name, source, domains) else {
            return Ok(refused(
                "too many models are wanted from the cold tier; try again later",
            ));
        };
        let mut tick = interval(TELL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = RestoreStage::Waiting;
        loop {
            let stage = stages.borrow_and_update().clone();
            match stage {
                RestoreStage::Restored(restored) => {
                    let message = Message::ModelRestored {
                        objects: restored.objects,
                        bytes: restored.bytes,
                    };
                    return Ok((message, Next::Another));
                }
                RestoreStage::Refused(why) => return Ok(refused(&why)),
                RestoreStage::Waiting | RestoreStage::Reading { .. } => {}
            }
            tokio::select! {
                changed = stages.changed() => if changed.is_err() {
                    return Ok(refused("the daemon is stopping"));
                },
                _ = tick.tick() => {
                    // A large object is no progress for some seconds: the client hears that its model is not forgotten.
                    let message = match stage {
                        RestoreStage::Reading { done, total } if sent != stage => {
                            Message::IngestProgress { done, total }
                        }
                        _ => Message::IngestWaiting { ahead: 0 },
                    };
                    sent = stage;
                    frames.send(&message.encode()).await?;
                }
                early = frames.disturbed() => return self.interrupted(early),
            }
        }
    }
}

fn refused(why: &str) -> (Message, Next) {
    let refusal = IngestRefusal {
        reason: IngestReason::UNAVAILABLE,
        text: why.to_owned(),
    };
    (Message::IngestRefused(refusal), Next::Another)
}
