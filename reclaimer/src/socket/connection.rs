//! One client.

use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::Usage;
use tetris_wire::daemon::{ErrorCode, Message, PROTOCOL, RoomReason, RoomRefusal};
use tetris_wire::{Peer, ProtocolError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::Instrument as _;

use super::frames::{Ended, Frames};
use super::{Fault, RoomAnswer, RoomAsk};
use crate::cold::ColdOrders;
use crate::ingest::{AssemblyRequest, Broker, IngestRequest, TargetStore};
use crate::models::KeptModels;
use crate::report::LatestStatus;

/// Receives each fault.
pub(super) type OnFault = Arc<dyn Fn(Fault) + Send + Sync>;

/// A client, and the services that answer its requests.
pub(super) struct Client {
    pub(super) peer: Peer,
    /// True if it is a process of a pod that has the store as a volume.
    pub(super) is_pod: bool,
    /// True if it may ask for room.
    pub(super) allowed: bool,
    /// The file system's size when the client came; `None` if that is unknown.
    pub(super) usage: Option<Usage>,
    pub(super) room: mpsc::Sender<RoomAsk>,
    pub(super) answer: Duration,
    pub(super) on_fault: OnFault,
    /// Takes files, where the daemon does.
    pub(super) broker: Option<Broker>,
    /// The last pass, for questions about declared models.
    pub(super) status: Option<LatestStatus>,
    /// The store that they are published in.
    pub(super) target: TargetStore,
    /// Models that clients keep.
    pub(super) models: KeptModels,
    /// The cold tier, if there is one.
    pub(super) cold: Option<ColdOrders>,
}

/// The next step of the connection.
pub(super) enum Next {
    Another,
    /// It does, and there is nothing to say.
    Silent,
    Hangup,
}

impl Client {
    /// Answers messages until the client hangs up or breaks the rules.
    pub(super) async fn talk(self, mut frames: Frames) {
        let (code, why) = match self.messages(&mut frames).await {
            Ok(()) | Err(Ended::Closed) => return,
            Err(Ended::Stalled) => return (self.on_fault)(Fault::Stalled(self.peer)),
            Err(Ended::Broken(error)) => (ErrorCode::MALFORMED, error.to_string()),
        };
        self.protest(code, &why);
        // It may be gone already.
        let _told = frames
            .send(&Message::Error { code, text: why }.encode())
            .await;
    }

    async fn messages(&self, frames: &mut Frames) -> Result<(), Ended> {
        let theirs = frames.preamble().await?;
        frames.send(&PROTOCOL.preamble()).await?;
        match PROTOCOL.check_preamble(&theirs) {
            // It sees our version, and knows.
            Err(error @ ProtocolError::Version { .. }) => {
                self.protest(ErrorCode::MALFORMED, &error.to_string());
                return Ok(());
            }
            checked => checked.map_err(Ended::Broken)?,
        }
        if !self.is_hello(frames).await? {
            return Ok(());
        }
        let daemon = env!("CARGO_PKG_VERSION").to_owned();
        frames.send(&Message::HelloAck { daemon }.encode()).await?;
        let (mut domain, mut parent, mut keeper) = (None, None, None);
        loop {
            let incoming = frames.receive().await?;
            let span = self.span(&incoming.message, parent.as_deref());
            let (answer, next) = match incoming.message {
                Ok(Message::Trace { parent: theirs }) => {
                    parent = Some(theirs);
                    (Message::TraceKept, Next::Another)
                }
                Ok(Message::Ingest { kind }) => {
                    let request = IngestRequest::File(kind);
                    let ingest = self.ingest(frames, request, incoming.descriptors);
                    ingest.instrument(span).await?
                }
                Ok(Message::Publish { object }) => {
                    let request = IngestRequest::Memory(object);
                    let ingest = self.ingest(frames, request, incoming.descriptors);
                    ingest.instrument(span).await?
                }
                Ok(Message::Assemble {
                    manifest_len,
                    sha256,
                }) => {
                    let request = IngestRequest::Assembly(AssemblyRequest {
                        manifest_len,
                        sha256,
                    });
                    let ingest = self.ingest(frames, request, incoming.descriptors);
                    ingest.instrument(span).await?
                }
                Ok(Message::AskDomain) => {
                    let domain_of_header = self.domain(incoming.descriptors).await;
                    domain = domain_of_header.as_ref().ok().copied().flatten();
                    (
                        domain_of_header.map_or_else(|refused| refused, Message::Domain),
                        Next::Another,
                    )
                }
                Ok(Message::RecordDerived(claim)) => {
                    let record = self.record(frames, domain, claim);
                    record.instrument(span).await?
                }
                Ok(Message::TakeTurn(request)) => {
                    let take_turn = self.take_turn(frames, domain, request);
                    take_turn.instrument(span).await?
                }
                Ok(Message::MakeRoom { bytes, inodes }) => {
                    let make_room = self.make_room(frames, bytes, inodes);
                    make_room.instrument(span).await?
                }
                Ok(Message::AskWarm { manifest }) => self.is_warm(manifest),
                Ok(Message::KeepModel { name }) => match self.keep(domain, name) {
                    Ok(kept) => {
                        keeper = Some(kept);
                        (Message::ModelNoted, Next::Another)
                    }
                    Err(refused) => (refused, Next::Another),
                },
                Ok(Message::RestoreModel { source }) => {
                    let restore = self.restore_model(frames, domain, source);
                    restore.instrument(span).await?
                }
                Ok(Message::RankModel { priority }) => self.rank(keeper.as_ref(), priority),
                Ok(Message::ReportModel(report)) => {
                    self.note_model(frames, keeper.as_ref(), report).await?
                }
                Ok(other) => self.unknown(&ProtocolError::UnknownKind(other.kind())),
                Err(error @ ProtocolError::UnknownKind(_)) => self.unknown(&error),
                Err(error) => {
                    let error = self.error(ErrorCode::MALFORMED, error.to_string());
                    (error, Next::Another)
                }
            };
            if let Next::Silent = next {
                continue;
            }
            frames.send(&answer.encode()).await?;
            if let Next::Hangup = next {
                return Ok(());
            }
        }
    }

    /// Reads the first message, and refuses the client if it is another than `Hello`.
    async fn is_hello(&self, frames: &mut Frames) -> Result<bool, Ended> {
        let incoming = frames.receive().await?;
        let text = match incoming.message {
            Ok(Message::Hello { .. }) => return Ok(true),
            Ok(other) => format!("message kind {} came first, expected Hello", other.kind()),
            Err(error) => format!("expected Hello: {error}"),
        };
        let error = self.error(ErrorCode::OUT_OF_TURN, text);
        frames.send(&error.encode()).await?;
        Ok(false)
    }

    fn unknown(&self, error: &ProtocolError) -> (Message, Next) {
        let answer = self.error(ErrorCode::UNKNOWN_KIND, error.to_string());
        (answer, Next::Another)
    }

    fn protest(&self, code: ErrorCode, why: &str) {
        (self.on_fault)(Fault::Protocol(self.peer, code, why.to_owned()));
    }

    pub(super) fn error(&self, code: ErrorCode, text: String) -> Message {
        self.protest(code, &text);
        Message::Error { code, text }
    }

    /// The end of a request during which the client hung up, or, `early`, sent another.
    pub(super) fn interrupted(&self, early: bool) -> Result<(Message, Next), Ended> {
        if !early {
            return Err(Ended::Closed);
        }
        let text = "one request at a time: wait for the answer".to_owned();
        Ok((self.error(ErrorCode::OUT_OF_TURN, text), Next::Hangup))
    }

    async fn make_room(
        &self,
        frames: &Frames,
        bytes: u64,
        inodes: u32,
    ) -> Result<(Message, Next), Ended> {
        if let Some(refusal) = self.refuse_at_once(bytes, inodes) {
            return Ok((Message::RoomRefused(refusal), Next::Another));
        }
        let (reply, answer) = oneshot::channel();
        let ask = RoomAsk {
            store: self.target.name.clone(),
            bytes,
            inodes,
            peer: self.peer,
            reply,
        };
        let asked = async {
            self.room.send(ask).await.ok()?;
            answer.await.ok()
        };
        tokio::select! {
            answered = timeout(self.answer, asked) => Ok(self.answered(answered.ok().flatten())),
            // No one waits for the answer any more, and its maker can see so.
            early = frames.disturbed() => self.interrupted(early),
        }
    }

    fn answered(&self, answer: Option<RoomAnswer>) -> (Message, Next) {
        match answer {
            Some(RoomAnswer::Made {
                free_bytes,
                freed_bytes,
            }) => {
                let made = Message::RoomMade {
                    free_bytes,
                    freed_bytes,
                };
                (made, Next::Another)
            }
            Some(RoomAnswer::Refused(refusal)) => (Message::RoomRefused(refusal), Next::Another),
            None => {
                (self.on_fault)(Fault::Unanswered(self.peer));
                let error = Message::Error {
                    code: ErrorCode::UNAVAILABLE,
                    text: "the daemon is stopping, or too busy to answer".to_owned(),
                };
                (error, Next::Hangup)
            }
        }
    }

    /// The refusals that need no look at the store.
    fn refuse_at_once(&self, bytes: u64, inodes: u32) -> Option<RoomRefusal> {
        if !self.allowed {
            (self.on_fault)(Fault::NotAllowed(self.peer));
            return Some(RoomRefusal {
                missing_bytes: 0,
                reason: RoomReason::NOT_ALLOWED,
                text: format!(
                    "uid {} may not have room made here; root and the store's owner may, unless pods get the store as a volume",
                    self.peer.uid
                ),
            });
        }
        let usage = self.usage?;
        let too_many = usage.inodes > 0 && u64::from(inodes) > usage.inodes;
        (bytes > usage.capacity || too_many).then(|| RoomRefusal {
            missing_bytes: bytes.saturating_sub(usage.capacity),
            reason: RoomReason::TOO_LARGE,
            text: format!(
                "{bytes} bytes and {inodes} files do not fit, the store's file system has {} bytes and {} files in all",
                usage.capacity, usage.inodes
            ),
        })
    }
}
