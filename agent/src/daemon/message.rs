//! The messages.

use super::frame::{FrameHeader, ProtocolError};

/// Longest text of a message in bytes.
pub const MAX_TEXT_BYTES: usize = 512;

const HELLO: u8 = 1;
const HELLO_ACK: u8 = 2;
const MAKE_ROOM: u8 = 3;
const ROOM_MADE: u8 = 4;
const ROOM_REFUSED: u8 = 5;
const ERROR: u8 = 6;

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
        }
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// [`ProtocolError::UnknownKind`], and payloads that are not what their kind says.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut rest = Payload {
            kind,
            rest: payload,
            found: payload.len(),
        };
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
            unknown => Err(ProtocolError::UnknownKind(unknown)),
        }
    }
}

/// The first bytes of a text, at most [`MAX_TEXT_BYTES`], without half a character.
fn cut(text: &str) -> &[u8] {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    text.as_bytes().get(..end).unwrap_or_default()
}

/// What is left to read of a payload.
struct Payload<'a> {
    kind: u8,
    rest: &'a [u8],
    found: usize,
}

impl Payload<'_> {
    fn length(&self, expected: &'static str) -> ProtocolError {
        ProtocolError::Length {
            kind: self.kind,
            expected,
            found: self.found,
        }
    }

    fn next<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], ProtocolError> {
        let split = self.rest.split_first_chunk();
        let (field, rest) = split.ok_or_else(|| self.length(expected))?;
        self.rest = rest;
        Ok(*field)
    }

    /// The last field.
    fn last<const N: usize>(&self, expected: &'static str) -> Result<[u8; N], ProtocolError> {
        self.rest.try_into().map_err(|_| self.length(expected))
    }

    /// A text, which comes last.
    fn text(&self, expected: &'static str) -> Result<String, ProtocolError> {
        if self.rest.len() > MAX_TEXT_BYTES {
            return Err(self.length(expected));
        }
        let text = str::from_utf8(self.rest).map_err(|_| ProtocolError::Text(self.kind))?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::FRAME_HEADER_BYTES;
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = String> {
        ".{0,128}"
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<u32>().prop_map(|pid| Message::Hello { pid }),
            text().prop_map(|daemon| Message::HelloAck { daemon }),
            any::<(u64, u32)>().prop_map(|(bytes, inodes)| Message::MakeRoom { bytes, inodes }),
            any::<(u64, u64)>().prop_map(|(free_bytes, freed_bytes)| Message::RoomMade {
                free_bytes,
                freed_bytes
            }),
            (any::<(u64, u16)>(), text()).prop_map(|((missing_bytes, reason), text)| {
                let reason = RefusalReason(reason);
                Message::RoomRefused(Refusal {
                    missing_bytes,
                    reason,
                    text,
                })
            }),
            (any::<u16>(), text()).prop_map(|(code, text)| Message::Error {
                code: ErrorCode(code),
                text
            }),
        ]
    }

    fn decode(frame: &[u8]) -> Result<Message, ProtocolError> {
        let (header, payload) = frame.split_first_chunk::<FRAME_HEADER_BYTES>().unwrap();
        let header = FrameHeader::decode(*header)?;
        assert_eq!(header.len, payload.len());
        Message::decode(header.kind, payload)
    }

    #[test]
    fn a_request_is_the_bytes_that_the_document_says() {
        let message = Message::MakeRoom {
            bytes: 0x0102,
            inodes: 3,
        };
        let bytes = b"\x0c\0\0\0\x03\x02\x01\0\0\0\0\0\0\x03\0\0\0";
        assert_eq!(message.encode(), bytes);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let long = Message::HelloAck {
            daemon: format!("a{}", "\u{e9}".repeat(400)),
        };
        let Ok(Message::HelloAck { daemon }) = decode(&long.encode()) else {
            panic!("{long:?}");
        };
        assert_eq!(daemon, format!("a{}", "\u{e9}".repeat(255)));
    }

    #[test]
    fn a_text_that_is_too_long_or_no_text_is_refused() {
        let long = Message::decode(ERROR, &[b'a'; 2 + MAX_TEXT_BYTES + 1]);
        assert!(
            matches!(long, Err(ProtocolError::Length { .. })),
            "{long:?}"
        );
        let text = Message::decode(ERROR, &[0, 0, 0xff]);
        assert_eq!(text, Err(ProtocolError::Text(ERROR)));
    }

    proptest! {
        #[test]
        fn messages_survive_the_way(message in message()) {
            prop_assert_eq!(decode(&message.encode()), Ok(message));
        }

        #[test]
        fn a_cut_or_longer_message_of_fixed_length_is_refused(
            bytes: u64, inodes: u32, len in 0..30_usize,
        ) {
            let mut payload = Message::MakeRoom { bytes, inodes }.payload();
            payload.resize(len, 0);
            prop_assert_eq!(Message::decode(MAKE_ROOM, &payload).is_ok(), len == 12);
        }

        #[test]
        fn garbage_is_refused_or_encodes_to_itself(kind: u8, payload: Vec<u8>) {
            if let Ok(message) = Message::decode(kind, &payload) {
                prop_assert_eq!(message.kind(), kind);
                prop_assert_eq!(message.payload(), payload);
            }
        }
    }
}
