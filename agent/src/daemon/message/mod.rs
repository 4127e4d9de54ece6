//! The messages.

mod ingest;
mod payload;
#[cfg(test)]
mod tests;

use tetris_store_layout::{Digest, ManifestId, ManifestKind};

use super::frame::{FrameHeader, ProtocolError};

pub use ingest::{IngestReason, IngestRefusal};
use payload::{Payload, cut};

/// Longest text of a message in bytes.
pub const MAX_TEXT_BYTES: usize = 512;

const HELLO: u8 = 1;
const HELLO_ACK: u8 = 2;
const MAKE_ROOM: u8 = 3;
const ROOM_MADE: u8 = 4;
const ROOM_REFUSED: u8 = 5;
const ERROR: u8 = 6;
const INGEST_DONE: u8 = 7;
const INGEST_WAITING: u8 = 8;
const INGEST_PROGRESS: u8 = 9;
const INGESTED: u8 = 10;
const INGEST_REFUSED: u8 = 11;
/// The kind of [`Message::Ingest`], which carries a descriptor: its payload is read with `recvmsg`.
pub const INGEST: u8 = 64;
/// Bytes of the payload of [`Message::Ingest`].
pub const INGEST_PAYLOAD_BYTES: usize = 1;

/// A message of either side.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// An agent presents itself.
    Hello {
        /// Its process, as it sees itself: for people, nothing is decided by it.
        pid: u32,
    },
    /// The daemon presents itself.
    HelloAck {
        /// The daemon's version, for people.
        daemon: String,
    },
    /// A load waits for room.
    MakeRoom {
        /// Bytes that should be free.
        bytes: u64,
        /// Files that it should be possible to make.
        inodes: u32,
    },
    /// Room was made, or there was enough.
    RoomMade {
        /// Bytes that are free now.
        free_bytes: u64,
        /// Bytes that were freed for this request.
        freed_bytes: u64,
    },
    /// No room was made, or not enough.
    RoomRefused(Refusal),
    /// A client that can only read the store passes a model file, to be published. One descriptor comes with it.
    Ingest {
        /// What is to be made of the file.
        kind: ManifestKind,
    },
    /// The client has attached what it had ingested, or does not want it any more.
    IngestDone,
    /// Others are served first. Sent now and then.
    IngestWaiting {
        /// How many.
        ahead: u32,
    },
    /// The file is being read. Sent while that goes on, a few times per second at most.
    IngestProgress {
        /// Bytes read so far.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// The file is in the store, and stays there until the client is done.
    Ingested {
        /// What it consists of.
        manifest: ManifestId,
        /// Bytes that were read of the file; 0 when it was known.
        bytes_read: u64,
    },
    /// The file is not in the store.
    IngestRefused(IngestRefusal),
    /// A message could not be understood or answered.
    Error {
        /// Why, for programs.
        code: ErrorCode,
        /// Why, for people; at most [`MAX_TEXT_BYTES`].
        text: String,
    },
}

/// Why there is no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Bytes that are missing; 0 where it is not a matter of bytes.
    pub missing_bytes: u64,
    /// Why, for programs.
    pub reason: RefusalReason,
    /// Why, for people; at most [`MAX_TEXT_BYTES`].
    pub text: String,
}

/// Why there is no room. Later daemons may know more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefusalReason(pub u16);

impl RefusalReason {
    /// What is in the store is mapped.
    pub const IN_USE: Self = Self(1);
    /// What nobody maps is kept by policy: declared warm, guaranteed, too young.
    pub const POLICY: Self = Self(2);
    /// The store could not hold it if it were empty.
    pub const TOO_LARGE: Self = Self(3);
    /// The asking user may not reclaim.
    pub const NOT_ALLOWED: Self = Self(4);
    /// Too many requests wait already.
    pub const BUSY: Self = Self(5);
    /// The daemon cannot use the store, or only plans.
    pub const UNAVAILABLE: Self = Self(6);
}

/// Why a message got no answer. Later daemons may know more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// The kind of message is not known, or only the other side sends it.
    pub const UNKNOWN_KIND: Self = Self(1);
    /// The bytes are not a message.
    pub const MALFORMED: Self = Self(2);
    /// It came before its turn. The connection ends.
    pub const OUT_OF_TURN: Self = Self(3);
    /// The daemon ends, or took too long. The connection ends.
    pub const UNAVAILABLE: Self = Self(4);
}

impl Message {
    /// What its frame says it is.
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
        }
    }

    /// The whole frame. Texts are cut to [`MAX_TEXT_BYTES`].
    pub fn encode(&self) -> Vec<u8> {
        let payload = self.payload();
        let header = FrameHeader {
            len: payload.len(),
            kind: self.kind(),
        };
        [header.encode().as_slice(), &payload].concat()
    }

    fn payload(&self) -> Vec<u8> {
        match self {
            Self::Hello { pid } => pid.to_le_bytes().to_vec(),
            Self::HelloAck { daemon } => cut(daemon).to_vec(),
            Self::MakeRoom { bytes, inodes } => {
                [bytes.to_le_bytes().as_slice(), &inodes.to_le_bytes()].concat()
            }
            Self::RoomMade {
                free_bytes,
                freed_bytes,
            } => [free_bytes.to_le_bytes(), freed_bytes.to_le_bytes()].concat(),
            Self::RoomRefused(refusal) => [
                refusal.missing_bytes.to_le_bytes().as_slice(),
                &refusal.reason.0.to_le_bytes(),
                cut(&refusal.text),
            ]
            .concat(),
            Self::Error { code, text } => [code.0.to_le_bytes().as_slice(), cut(text)].concat(),
            Self::Ingest { kind } => vec![ingest::kind_code(*kind)],
            Self::IngestDone => Vec::new(),
            Self::IngestWaiting { ahead } => ahead.to_le_bytes().to_vec(),
            Self::IngestProgress { done, total } => {
                [done.to_le_bytes(), total.to_le_bytes()].concat()
            }
            Self::Ingested {
                manifest,
                bytes_read,
            } => [manifest.0.0.as_slice(), &bytes_read.to_le_bytes()].concat(),
            Self::IngestRefused(refusal) => [
                refusal.reason.0.to_le_bytes().as_slice(),
                cut(&refusal.text),
            ]
            .concat(),
        }
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// [`ProtocolError::UnknownKind`], and payloads that are not what their kind says.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut rest = Payload::new(kind, payload);
        match kind {
            HELLO => {
                let pid = rest.last("4").map(u32::from_le_bytes)?;
                Ok(Self::Hello { pid })
            }
            HELLO_ACK => rest
                .text("at most 512")
                .map(|daemon| Self::HelloAck { daemon }),
            MAKE_ROOM => Ok(Self::MakeRoom {
                bytes: rest.next("12").map(u64::from_le_bytes)?,
                inodes: rest.last("12").map(u32::from_le_bytes)?,
            }),
            ROOM_MADE => Ok(Self::RoomMade {
                free_bytes: rest.next("16").map(u64::from_le_bytes)?,
                freed_bytes: rest.last("16").map(u64::from_le_bytes)?,
            }),
            ROOM_REFUSED => Ok(Self::RoomRefused(Refusal {
                missing_bytes: rest.next("10 to 522").map(u64::from_le_bytes)?,
                reason: RefusalReason(rest.next("10 to 522").map(u16::from_le_bytes)?),
                text: rest.text("10 to 522")?,
            })),
            ERROR => Ok(Self::Error {
                code: ErrorCode(rest.next("2 to 514").map(u16::from_le_bytes)?),
                text: rest.text("2 to 514")?,
            }),
            INGEST => Ok(Self::Ingest {
                kind: ingest::kind_of(rest.last("1 (1 or 2)")?)
                    .ok_or_else(|| rest.length("1 (1 or 2)"))?,
            }),
            INGEST_DONE => rest.last::<0>("0").map(|_| Self::IngestDone),
            INGEST_WAITING => {
                let ahead = rest.last("4").map(u32::from_le_bytes)?;
                Ok(Self::IngestWaiting { ahead })
            }
            INGEST_PROGRESS => Ok(Self::IngestProgress {
                done: rest.next("16").map(u64::from_le_bytes)?,
                total: rest.last("16").map(u64::from_le_bytes)?,
            }),
            INGESTED => Ok(Self::Ingested {
                manifest: ManifestId(Digest(rest.next("40")?)),
                bytes_read: rest.last("40").map(u64::from_le_bytes)?,
            }),
            INGEST_REFUSED => Ok(Self::IngestRefused(IngestRefusal {
                reason: IngestReason(rest.next("2 to 514").map(u16::from_le_bytes)?),
                text: rest.text("2 to 514")?,
            })),
            unknown => Err(ProtocolError::UnknownKind(unknown)),
        }
    }
}
