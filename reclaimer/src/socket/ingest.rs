//! A client passes a file or memory.

use std::time::Duration;

use tetris_wire::daemon::{ErrorCode, IngestReason, IngestRefusal, Message};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::Fault;
use super::connection::{Client, Next};
use super::frames::{Descriptors, Ended, Frames};
use crate::ingest::{HOLD, IngestRequest, Stage, Stored, Ticket};

/// Least time between two messages about how far a file is.
const TELL: Duration = Duration::from_millis(500);

impl Client {
    /// Answers a client that passed a file, and sends it the progress meanwhile.
    pub(super) async fn ingest(
        &self,
        frames: &mut Frames,
        request: IngestRequest,
        descriptors: Descriptors,
    ) -> Result<(Message, Next), Ended> {
        let count = descriptors.found;
        let mut ticket = match (descriptors.only, &self.broker) {
            (None, _) => {
                let text = format!("an ingest comes with one descriptor, found {count}");
                return Ok((self.error(ErrorCode::MALFORMED, text), Next::Another));
            }
            (Some(_), None) => {
                let refusal = IngestRefusal {
                    reason: IngestReason::UNAVAILABLE,
                    text: "this daemon takes no files".to_owned(),
                };
                return Ok((Message::IngestRefused(refusal), Next::Another));
            }
            (Some(passed), Some(broker)) => {
                match broker
                    .ask(self.target.clone(), self.peer, request, passed)
                    .await
                {
                    Ok(ticket) => ticket,
                    Err(refusal) => return Ok((Message::IngestRefused(refusal), Next::Another)),
                }
            }
        };
        let answer = self.follow(frames, &mut ticket).await?;
        let (message, _) = &answer;
        if matches!(
            message,
            Message::Ingested { .. } | Message::Published { .. }
        ) {
            frames.send(&answer.0.encode()).await?;
            return self.hold(frames, ticket).await;
        }
        Ok(answer)
    }

    /// Reports the progress until that has ended.
    pub(super) async fn follow(
        &self,
        frames: &mut Frames,
        ticket: &mut Ticket,
    ) -> Result<(Message, Next), Ended> {
        let mut tick: Interval = interval(TELL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            let stage = ticket.stage();
            match stage {
                Stage::Done { stored, bytes_read } => {
                    return Ok((done(stored, bytes_read), Next::Another));
                }
                Stage::Refused(refusal) => {
                    return Ok((Message::IngestRefused(refusal), Next::Another));
                }
                Stage::Waiting(_) | Stage::Reading { .. } => {}
            }
            tokio::select! {
                () = ticket.changed() => {}
                _ = tick.tick() => if let Some(message) = progress(&ticket.stage(), &mut told) {
                    frames.send(&message.encode()).await?;
                },
                early = frames.disturbed() => return self.interrupted(early),
            }
        }
    }

    /// Keeps the file for the client until the client is done.
    async fn hold(&self, frames: &mut Frames, ticket: Ticket) -> Result<(Message, Next), Ended> {
        let Ok(next) = timeout(HOLD, frames.receive()).await else {
            (self.on_fault)(Fault::Stalled(self.peer));
            return Err(Ended::Closed);
        };
        drop(ticket);
        let incoming = next?;
        if let Ok(Message::IngestDone) = incoming.message {
            return Ok((Message::IngestDone, Next::Silent));
        }
        let text = "expected IngestDone".to_owned();
        Ok((self.error(ErrorCode::OUT_OF_TURN, text), Next::Hangup))
    }
}

/// The message about content that is in the store.
fn done(stored: Stored, bytes_read: u64) -> Message {
    match stored {
        Stored::Manifest(manifest) => Message::Ingested {
            manifest,
            bytes_read,
        },
        Stored::Object(object) => Message::Published { object, bytes_read },
        Stored::Derived => Message::Recorded,
    }
}

/// The message for a stage, if there is news. Bytes that do not grow are no progress.
fn progress(stage: &Stage, told: &mut Option<u64>) -> Option<Message> {
    match *stage {
        Stage::Waiting(ahead) => Some(Message::IngestWaiting { ahead }),
        Stage::Reading { done, total } if *told != Some(done) => {
            *told = Some(done);
            Some(Message::IngestProgress { done, total })
        }
        _ => None,
    }
}
