//! Frames: a length, a kind, a payload.

use crate::ProtocolError;
use crate::limits::MAX_FRAME_BYTES;

/// Length of a frame's header in bytes: length of the payload and kind.
pub const FRAME_HEADER_BYTES: usize = 5;

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the message.
    pub kind: u8,
    /// The payload.
    pub payload: Vec<u8>,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the payload in bytes.
    pub len: usize,
    /// Kind of the message.
    pub kind: u8,
}

/// The rule of a reader that takes no descriptors.
pub fn no_descriptors(_: FrameHeader) -> bool {
    false
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

    /// Encodes the header.
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
