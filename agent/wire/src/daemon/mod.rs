//! Messages of the node daemon's protocol (LAYOUT.md 11.3).
//!
//! An agent asks for room in a full store, or passes a model file or memory that the daemon publishes.
//! Hostile bytes become errors.

mod derived;
mod error_code;
mod ingest;
mod kinds;
mod model;
mod object;
mod room;
#[cfg(test)]
mod tests;

use tetris_store_layout::{Digest, ManifestId, ManifestKind, ObjectRef, TrustDomain};

use crate::{MAX_TEXT_BYTES, Protocol, ProtocolError, Reader, Writer};

use kinds::{
    ASK_DOMAIN, ASK_WARM, ASSEMBLE, DOMAIN, ERROR, HELLO, HELLO_ACK, INGEST, INGEST_DONE,
    INGEST_PROGRESS, INGEST_REFUSED, INGEST_WAITING, INGESTED, KEEP_MODEL, MAKE_ROOM, MODEL_NOTED,
    MODEL_RESTORED, PUBLISH, PUBLISHED, RANK_MODEL, RECORD_DERIVED, RECORDED, REPORT_MODEL,
    RESTORE_MODEL, ROOM_MADE, ROOM_REFUSED, SERVE_MODEL, TAKE_TURN, TRACE, TRACE_KEPT, TURN_TAKEN,
    WARM, YIELD_MODEL,
};

pub use derived::{BuildRequest, DerivedClaim};
pub use error_code::ErrorCode;
pub use ingest::{IngestReason, IngestRefusal};
pub use kinds::carries_descriptor;
pub use model::{MAX_MODEL_NAME, ModelReport, ModelStage, is_model_name};
pub use room::{RoomReason, RoomRefusal};

/// The protocol's preamble.
pub const PROTOCOL: Protocol = Protocol {
    magic: *b"TETRDAEM",
    version: 1,
};

/// A message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// An agent presents itself.
    Hello {
        /// Its process id in its own PID namespace, for people; nothing depends on it.
        pid: u32,
    },
    /// The daemon presents itself.
    HelloAck {
        /// The daemon's version, for people.
        daemon: String,
    },
    /// A load waits for room.
    MakeRoom {
        /// Number of bytes that should be free.
        bytes: u64,
        /// Number of files that it should be possible to make.
        inodes: u32,
    },
    /// Room was made, or there was enough.
    RoomMade {
        /// Number of bytes that are free now.
        free_bytes: u64,
        /// Number of bytes freed for this request.
        freed_bytes: u64,
    },
    /// No room was made, or not enough.
    RoomRefused(RoomRefusal),
    /// A client that can only read the store passes a model file to publish. One descriptor comes
    /// with it.
    Ingest {
        /// The kind of manifest that the file gets.
        kind: ManifestKind,
    },
    /// The client has attached the file or memory that it passed, or no longer wants it.
    IngestDone,
    /// Other files are served first. Sent now and then.
    IngestWaiting {
        /// Number of these files.
        ahead: u32,
    },
    /// The file is being read. Sent a few times per second at most.
    IngestProgress {
        /// Number of bytes read so far.
        done: u64,
        /// Length of the file in bytes.
        total: u64,
    },
    /// The file is in the store, and stays there until the client is done.
    Ingested {
        /// Its manifest.
        manifest: ManifestId,
        /// Number of bytes that were read of the file; 0 for a known file.
        bytes_read: u64,
    },
    /// The file, or the memory, is not in the store.
    IngestRefused(IngestRefusal),
    /// A client that can only read the store passes sealed memory to publish as one object. One
    /// descriptor comes with it.
    Publish {
        /// The object that the bytes make.
        object: ObjectRef,
    },
    /// A client that can only read the store passes the manifest of a file whose objects are in it, and the
    /// file's header behind that, in sealed memory. One descriptor comes with it.
    Assemble {
        /// Length of the manifest in bytes. The rest of the memory is the header; none for a file kept whole.
        manifest_len: u64,
        /// SHA-256 of the file, to be proved and bound to the manifest.
        sha256: Option<[u8; 32]>,
    },
    /// The object is in the store, and stays there until the client is done.
    Published {
        /// The object.
        object: ObjectRef,
        /// Number of bytes that were read of the memory; 0 for a known object.
        bytes_read: u64,
    },
    /// A client asks for its trust domain. One descriptor comes with it: the store's header, through
    /// the client's own mount.
    AskDomain,
    /// The client's trust domain; `None` if it has none.
    Domain(Option<TrustDomain>),
    /// A client has a derived tensor recorded, in the domain that it asked for before.
    RecordDerived(DerivedClaim),
    /// The derived tensor is recorded.
    Recorded,
    /// A client waits for its turn to make a derived object, in the domain that it asked for before.
    TakeTurn(BuildRequest),
    /// The client may make it. Others wait until it hangs up.
    TurnTaken,
    /// A client asks if pods declare a model warm, before it removes the model.
    AskWarm {
        /// The model's manifest.
        manifest: ManifestId,
    },
    /// The answer, as of the daemon's last pass.
    Warm {
        /// True if the model is declared warm.
        warm: bool,
    },
    /// The span that the client's later requests on this connection belong to.
    Trace {
        /// Value of a header `traceparent` (W3C Trace Context); at most [`MAX_TEXT_BYTES`].
        parent: String,
    },
    /// The daemon took note of the span.
    TraceKept,
    /// A client keeps a model on the node, in the domain that it asked for before, as long as it is connected.
    KeepModel {
        /// The model's name.
        name: String,
    },
    /// State of the model that the client keeps. The answer may wait for a mount.
    ReportModel(ModelReport),
    /// The daemon took note of the model, or of its state.
    ModelNoted,
    /// Priority of the model that the client keeps, which can give way to others in a full store.
    RankModel {
        /// Its priority: models of higher ones stay.
        priority: u32,
    },
    /// The client is to give its model up, instead of `ModelNoted`: one of higher priority has no room.
    YieldModel,
    /// A client wants a pulled model back from the node's cold tier, by the word of the domain that it asked for before or of the store's
    /// owner. [`IngestWaiting`](Self::IngestWaiting) and [`IngestProgress`](Self::IngestProgress) come meanwhile.
    RestoreModel {
        /// The model's source, as `tetris pull` takes it; at most [`MAX_TEXT_BYTES`].
        source: String,
    },
    /// All of the model is in the store.
    ModelRestored {
        /// Number of objects that came from the disk.
        objects: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// The client is to answer for a mount of its model, instead of `ModelNoted`. One descriptor comes with it: the mount's, of
    /// `/dev/fuse`.
    ServeModel {
        /// Number of the mount; not 0.
        mount: u64,
    },
    /// A message could not be understood or answered.
    Error {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people; at most [`MAX_TEXT_BYTES`].
        text: String,
    },
}

impl Message {
    /// Kind of the message in its frame's header.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => HELLO,
            Self::HelloAck { .. } => HELLO_ACK,
            Self::MakeRoom { .. } => MAKE_ROOM,
            Self::RoomMade { .. } => ROOM_MADE,
            Self::RoomRefused(_) => ROOM_REFUSED,
            Self::Error { .. } => ERROR,
            Self::Ingest { .. } => INGEST,
            Self::IngestDone => INGEST_DONE,
            Self::IngestWaiting { .. } => INGEST_WAITING,
            Self::IngestProgress { .. } => INGEST_PROGRESS,
            Self::Ingested { .. } => INGESTED,
            Self::IngestRefused(_) => INGEST_REFUSED,
            Self::AskWarm { .. } => ASK_WARM,
            Self::Warm { .. } => WARM,
            Self::Publish { .. } => PUBLISH,
            Self::AskDomain => ASK_DOMAIN,
            Self::Assemble { .. } => ASSEMBLE,
            Self::Domain(_) => DOMAIN,
            Self::RecordDerived(_) => RECORD_DERIVED,
            Self::Recorded => RECORDED,
            Self::TakeTurn(_) => TAKE_TURN,
            Self::TurnTaken => TURN_TAKEN,
            Self::Published { .. } => PUBLISHED,
            Self::Trace { .. } => TRACE,
            Self::TraceKept => TRACE_KEPT,
            Self::KeepModel { .. } => KEEP_MODEL,
            Self::ReportModel(_) => REPORT_MODEL,
            Self::ModelNoted => MODEL_NOTED,
            Self::RankModel { .. } => RANK_MODEL,
            Self::YieldModel => YIELD_MODEL,
            Self::RestoreModel { .. } => RESTORE_MODEL,
            Self::ModelRestored { .. } => MODEL_RESTORED,
            Self::ServeModel { .. } => SERVE_MODEL,
        }
    }

    /// Encodes the message as a whole frame. Texts are cut to [`MAX_TEXT_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        let to = Writer::new(self.kind());
        let to = match self {
            Self::Hello { pid } => to.u32(*pid),
            Self::Trace { parent } => to.text(parent, MAX_TEXT_BYTES),
            Self::HelloAck { daemon } => to.text(daemon, MAX_TEXT_BYTES),
            Self::MakeRoom { bytes, inodes } => to.u64(*bytes).u32(*inodes),
            Self::RoomMade {
                free_bytes,
                freed_bytes,
            } => to.u64(*free_bytes).u64(*freed_bytes),
            Self::RoomRefused(refusal) => refusal.encode(to),
            Self::Error { code, text } => to.u16(code.0).text(text, MAX_TEXT_BYTES),
            Self::Ingest { kind } => to.u8(ingest::kind_code(*kind)),
            Self::IngestDone
            | Self::Recorded
            | Self::TurnTaken
            | Self::TraceKept
            | Self::ModelNoted
            | Self::YieldModel => to,
            Self::RankModel { priority } => to.u32(*priority),
            Self::KeepModel { name } => to.text(name, MAX_MODEL_NAME),
            Self::ReportModel(report) => report.encode(to),
            Self::RestoreModel { source } => to.text(source, MAX_TEXT_BYTES),
            Self::ModelRestored { objects, bytes } => to.u64(*objects).u64(*bytes),
            Self::ServeModel { mount } => to.u64(*mount),
            Self::IngestWaiting { ahead } => to.u32(*ahead),
            Self::IngestProgress { done, total } => to.u64(*done).u64(*total),
            Self::Ingested {
                manifest,
                bytes_read,
            } => to.bytes(&manifest.0.0).u64(*bytes_read),
            Self::IngestRefused(refusal) => refusal.encode(to),
            Self::AskWarm { manifest } => to.bytes(&manifest.0.0),
            Self::Warm { warm } => to.u8(u8::from(*warm)),
            Self::Publish { object } => object::encode(to, object),
            Self::AskDomain => to.u8(0),
            Self::Assemble {
                manifest_len,
                sha256,
            } => to
                .u64(*manifest_len)
                .u8(u8::from(sha256.is_some()))
                .bytes(&sha256.unwrap_or_default()),
            Self::Domain(domain) => derived::encode_domain(to, *domain),
            Self::RecordDerived(claim) => claim.encode(to),
            Self::TakeTurn(request) => request.encode(to),
            Self::Published { object, bytes_read } => object::encode(to, object).u64(*bytes_read),
        };
        to.end()
    }

    /// Decodes the payload of a frame.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] if it is not a message of this kind.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, ProtocolError> {
        let reader = |expected| Reader::new(kind, payload, expected);
        match kind {
            HELLO => {
                let mut from = reader("4");
                let pid = from.u32()?;
                from.end(Self::Hello { pid })
            }
            HELLO_ACK => {
                let daemon = reader("at most 512").last_text()?;
                Ok(Self::HelloAck { daemon })
            }
            MAKE_ROOM => {
                let mut from = reader("12");
                let (bytes, inodes) = (from.u64()?, from.u32()?);
                from.end(Self::MakeRoom { bytes, inodes })
            }
            ROOM_MADE => {
                let mut from = reader("16");
                let (free_bytes, freed_bytes) = (from.u64()?, from.u64()?);
                from.end(Self::RoomMade {
                    free_bytes,
                    freed_bytes,
                })
            }
            ROOM_REFUSED => RoomRefusal::decode(reader("10 to 522")).map(Self::RoomRefused),
            ERROR => {
                let mut from = reader("2 to 514");
                let (code, text) = (ErrorCode(from.u16()?), from.last_text()?);
                Ok(Self::Error { code, text })
            }
            INGEST => {
                let mut from = reader("1");
                let kind = ingest::kind_of(&mut from)?;
                from.end(Self::Ingest { kind })
            }
            INGEST_DONE => reader("0").end(Self::IngestDone),
            INGEST_WAITING => {
                let mut from = reader("4");
                let ahead = from.u32()?;
                from.end(Self::IngestWaiting { ahead })
            }
            INGEST_PROGRESS => {
                let mut from = reader("16");
                let (done, total) = (from.u64()?, from.u64()?);
                from.end(Self::IngestProgress { done, total })
            }
            INGESTED => {
                let mut from = reader("40");
                let (manifest, bytes_read) = (ManifestId(Digest(from.bytes()?)), from.u64()?);
                from.end(Self::Ingested {
                    manifest,
                    bytes_read,
                })
            }
            INGEST_REFUSED => IngestRefusal::decode(reader("2 to 514")).map(Self::IngestRefused),
            ASK_WARM => {
                let mut from = reader("32");
                let manifest = ManifestId(Digest(from.bytes()?));
                from.end(Self::AskWarm { manifest })
            }
            WARM => {
                let mut from = reader("1");
                let warm = match from.u8()? {
                    0 => false,
                    1 => true,
                    other => return Err(from.value("0 or 1", other.into())),
                };
                from.end(Self::Warm { warm })
            }
            ASK_DOMAIN => {
                let mut from = reader("1");
                match from.u8()? {
                    0 => from.end(Self::AskDomain),
                    other => Err(from.value("0", other.into())),
                }
            }
            DOMAIN => {
                let mut from = reader("8");
                let domain = derived::decode_domain(&mut from)?;
                from.end(Self::Domain(domain))
            }
            RECORD_DERIVED => DerivedClaim::decode(reader("80 to 4,176")).map(Self::RecordDerived),
            RECORDED => reader("0").end(Self::Recorded),
            TAKE_TURN => BuildRequest::decode(reader("36 to 4,132")).map(Self::TakeTurn),
            TURN_TAKEN => reader("0").end(Self::TurnTaken),
            TRACE => {
                let parent = reader("at most 512").last_text()?;
                Ok(Self::Trace { parent })
            }
            TRACE_KEPT => reader("0").end(Self::TraceKept),
            KEEP_MODEL => {
                let name = model::decode_name(reader("1 to 253"))?;
                Ok(Self::KeepModel { name })
            }
            REPORT_MODEL => ModelReport::decode(reader("33 to 545")).map(Self::ReportModel),
            MODEL_NOTED => reader("0").end(Self::ModelNoted),
            RANK_MODEL => {
                let mut from = reader("4");
                let priority = from.u32()?;
                from.end(Self::RankModel { priority })
            }
            YIELD_MODEL => reader("0").end(Self::YieldModel),
            RESTORE_MODEL => {
                let mut from = reader("a text");
                let source = from.last_text()?;
                from.end(Self::RestoreModel { source })
            }
            MODEL_RESTORED => {
                let mut from = reader("16");
                let (objects, bytes) = (from.u64()?, from.u64()?);
                from.end(Self::ModelRestored { objects, bytes })
            }
            SERVE_MODEL => {
                let mut from = reader("8");
                match from.u64()? {
                    0 => Err(from.value("1 or more", 0)),
                    mount => from.end(Self::ServeModel { mount }),
                }
            }
            PUBLISH => {
                let mut from = reader("44");
                let object = object::decode(&mut from)?;
                from.end(Self::Publish { object })
            }
            ASSEMBLE => {
                let mut from = reader("41");
                let (manifest_len, is_known) = (from.u64()?, from.u8()?);
                let digest: [u8; 32] = from.bytes()?;
                let sha256 = match (is_known, digest) {
                    (0, digest) if digest == [0; 32] => None,
                    (1, digest) => Some(digest),
                    (other, _) => {
                        return Err(from.value("1, or 0 and a digest of zeros", other.into()));
                    }
                };
                from.end(Self::Assemble {
                    manifest_len,
                    sha256,
                })
            }
            PUBLISHED => {
                let mut from = reader("52");
                let (object, bytes_read) = (object::decode(&mut from)?, from.u64()?);
                from.end(Self::Published { object, bytes_read })
            }
            unknown => Err(ProtocolError::UnknownKind(unknown)),
        }
    }
}
