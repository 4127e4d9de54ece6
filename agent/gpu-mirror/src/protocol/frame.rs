//! Preambles and frames.

use thiserror::Error;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// First bytes in both directions, in every version.
const MAGIC: [u8; 8] = *b"TETRGPUM";
/// Length of the preamble in bytes: magic and version.
pub const PREAMBLE_BYTES: usize = 12;
/// Length of a frame's header in bytes: length and kind.
pub const FRAME_HEADER_BYTES: usize = 5;
/// Maximum length of a frame in bytes, with its header.
pub const MAX_FRAME_BYTES: usize = 64 << 10;

/// The reason bytes of the other side violate the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The other side is not a mirror or a client of one.
    #[error("preamble begins with `{found}`, expected `TETRGPUM`; is this the mirror's socket?")]
    Magic {
        /// The bytes found, printable ones as characters.
        found: String,
    },
    /// The other side has another version.
    #[error(
        "protocol version is {found}, expected {VERSION}; use a client and a daemon of one release"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// A frame announces a length above the maximum.
    #[error("frame has {found} bytes, at most {MAX_FRAME_BYTES} are allowed")]
    TooLong {
        /// Its length with its header, in bytes.
        found: u64,
    },
    /// The kind of message is unknown, or only the other side sends it.
    #[error("message kind {0} is not expected here in protocol version {VERSION}")]
    UnknownKind(u8),
    /// A payload is longer or shorter than its message.
    #[error("payload of message kind {kind} has {found} bytes, expected {expected}")]
    Length {
        /// The message's kind.
        kind: u8,
        /// Length of the message's payload in bytes, as text.
        expected: &'static str,
        /// Length found, in bytes.
        found: usize,
    },
    /// A field has an invalid value.
    #[error("message kind {kind} has the number {found}, expected {expected}")]
    Value {
        /// The message's kind.
        kind: u8,
        /// The valid values.
        expected: &'static str,
        /// The value found.
        found: u64,
    },
    /// A text is not UTF-8.
    #[error("text of message kind {0} is not UTF-8")]
    Text(u8),
}

/// Encodes the preamble, the first bytes of each side.
pub fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    let (magic, version) = bytes.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Checks the other side's preamble.
///
/// # Errors
///
/// [`ProtocolError`] if the magic or the version differs. The bytes after it have no defined
/// meaning then.
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

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the payload in bytes.
    pub len: usize,
    /// Kind of the message. Kinds below [`DESCRIPTORS_FROM`](super::DESCRIPTORS_FROM) carry no
    /// descriptors.
    pub kind: u8,
}

impl FrameHeader {
    /// Decodes a header.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::TooLong`] if the frame is too long. The start of the next frame is unknown
    /// then.
    pub fn decode(bytes: [u8; FRAME_HEADER_BYTES]) -> Result<Self, ProtocolError> {
        let [a, b, c, d, kind] = bytes;
        let len = u32::from_le_bytes([a, b, c, d]);
        let found = u64::from(len) + FRAME_HEADER_BYTES as u64;
        if found > MAX_FRAME_BYTES as u64 {
            return Err(ProtocolError::TooLong { found });
        }
        let len = len as usize;
        Ok(Self { len, kind })
    }
}
