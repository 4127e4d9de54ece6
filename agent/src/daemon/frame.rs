//! What both sides send before they talk, and the frames that they talk in.

use thiserror::Error;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// First bytes of either direction, in every version.
const MAGIC: [u8; 8] = *b"TETRDAEM";
/// Bytes of the preamble: magic and version.
pub const PREAMBLE_BYTES: usize = 12;
/// Bytes before a frame's payload: its length and kind.
pub const FRAME_HEADER_BYTES: usize = 5;
/// Longest frame, its header included.
pub const MAX_FRAME_BYTES: usize = 64 << 10;

/// The other side sent what the protocol does not allow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// It is something else that listens or asks there.
    #[error("preamble begins with `{found}`, expected `TETRDAEM`")]
    Magic {
        /// The bytes found, printable ones as such.
        found: String,
    },
    /// It speaks another version.
    #[error(
        "protocol version is {found}, expected {VERSION}; use an agent and a daemon of one release"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// A frame announces more than a frame may have.
    #[error("frame has {found} bytes, at most {MAX_FRAME_BYTES} are allowed")]
    TooLong {
        /// Its length with its header.
        found: u64,
    },
    /// The kind of message is not known here.
    #[error("message kind {0} is not known in protocol version {VERSION}")]
    UnknownKind(u8),
    /// A payload is longer or shorter than its message.
    #[error("payload of message kind {kind} has {found} bytes, expected {expected}")]
    Length {
        /// The message's kind.
        kind: u8,
        /// Bytes that it has.
        expected: &'static str,
        /// Bytes found.
        found: usize,
    },
    /// A text is not UTF-8.
    #[error("text of message kind {0} is not UTF-8")]
    Text(u8),
}

/// What either side sends first.
pub fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    let (magic, version) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Checks what the other side sent first.
///
/// # Errors
/// [`ProtocolError::Magic`] and [`ProtocolError::Version`]: nothing that follows can be understood.
pub fn check_preamble(bytes: &[u8; PREAMBLE_BYTES]) -> Result<(), ProtocolError> {
    let found = || ProtocolError::Magic {
        found: bytes.escape_ascii().to_string(),
    };
    let version = bytes.strip_prefix(&MAGIC).ok_or_else(found)?;
    let version = version.first_chunk().ok_or_else(found)?;
    match u32::from_le_bytes(*version) {
        VERSION => Ok(()),
        found => Err(ProtocolError::Version { found }),
    }
}

/// The beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the payload in bytes.
    pub len: usize,
    /// What the payload is. Kinds below 64 carry no descriptors.
    pub kind: u8,
}

impl FrameHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`ProtocolError::TooLong`]: where the next frame begins is not to be learned from such a peer.
    pub fn decode(bytes: [u8; FRAME_HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let [a, b, c, d, kind] = bytes;
        let len = u32::from_le_bytes([a, b, c, d]);
        let found = u64::from(len) + FRAME_HEADER_BYTES as u64;
        if found > MAX_FRAME_BYTES as u64 {
            return Err(ProtocolError::TooLong { found });
        }
        Ok(Self {
            len: len as usize,
            kind,
        })
    }

    /// The header as it is sent.
    pub fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        let [a, b, c, d] = (self.len as u32).to_le_bytes();
        [a, b, c, d, self.kind]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_preamble_is_what_the_document_says() {
        assert_eq!(preamble(), *b"TETRDAEM\x01\0\0\0");
        assert_eq!(check_preamble(&preamble()), Ok(()));
    }

    #[test]
    fn another_version_and_another_program_are_told_apart() {
        let mut newer = preamble();
        newer[8] = 2;
        let version = ProtocolError::Version { found: 2 };
        assert_eq!(check_preamble(&newer), Err(version));
        let found = check_preamble(b"GET / HTTP/1").unwrap_err();
        assert!(matches!(found, ProtocolError::Magic { .. }), "{found}");
    }

    #[test]
    fn the_longest_frame_is_64_kib_with_its_header() {
        let longest = (65_536 - 5_u32).to_le_bytes();
        let [a, b, c, d] = longest;
        assert!(FrameHeader::decode([a, b, c, d, 7]).is_ok());
        assert_eq!(
            FrameHeader::decode([a + 1, b, c, d, 7]),
            Err(ProtocolError::TooLong { found: 65_537 })
        );
        let most = FrameHeader::decode([0xff; 5]);
        assert!(matches!(most, Err(ProtocolError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn headers_survive_the_way(len in 0..=MAX_FRAME_BYTES - 5, kind: u8) {
            let header = FrameHeader { len, kind };
            prop_assert_eq!(FrameHeader::decode(header.encode()), Ok(header));
        }
    }
}
