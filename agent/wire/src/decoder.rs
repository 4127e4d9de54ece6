//! Decoders that a transport feeds with one read after another. No I/O.
//!
//! A decoder never asks for bytes beyond its item. So a transport knows, before it reads, which
//! item the descriptors of the next read belong to.

use crate::{Frame, FrameHeader, PREAMBLE_BYTES, ProtocolError, frame::FRAME_HEADER_BYTES};

/// A decoder of one kind of item.
pub trait Decode {
    /// The result.
    type Item;

    /// Room for the next bytes. Empty only after an error.
    fn room(&mut self) -> &mut [u8];

    /// Returns true if descriptors that come with the next bytes belong to the item.
    fn takes_descriptors(&self) -> bool {
        false
    }

    /// Notes that the first `bytes` of the room were filled. Returns the item once it is complete.
    ///
    /// # Errors
    ///
    /// Bytes that the protocol does not allow. Nothing more can be read then.
    fn filled(&mut self, bytes: usize) -> Result<Option<Self::Item>, ProtocolError>;
}

/// Decoder of a preamble. Does not check it.
#[derive(Debug, Default)]
pub struct PreambleDecoder {
    bytes: [u8; PREAMBLE_BYTES],
    filled: usize,
}

impl Decode for PreambleDecoder {
    type Item = [u8; PREAMBLE_BYTES];

    fn room(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.filled..).unwrap_or_default()
    }

    fn filled(&mut self, bytes: usize) -> Result<Option<Self::Item>, ProtocolError> {
        self.filled += bytes;
        Ok((self.filled >= PREAMBLE_BYTES).then_some(self.bytes))
    }
}

/// Decoder of frames, one after the other.
#[derive(Debug)]
pub struct FrameDecoder {
    takes: fn(FrameHeader) -> bool,
    header_bytes: [u8; FRAME_HEADER_BYTES],
    /// The header, while its payload is read.
    header: Option<FrameHeader>,
    payload: Vec<u8>,
    /// Number of bytes that are there of the header or of the payload.
    filled: usize,
}

impl FrameDecoder {
    /// A decoder that takes the descriptors of the frames for which `takes` returns true. They come
    /// with the first byte of the payload.
    pub fn new(takes: fn(FrameHeader) -> bool) -> Self {
        Self {
            takes,
            header_bytes: [0; FRAME_HEADER_BYTES],
            header: None,
            payload: Vec::new(),
            filled: 0,
        }
    }
}

impl Decode for FrameDecoder {
    type Item = Frame;

    fn room(&mut self) -> &mut [u8] {
        let part = match self.header {
            None => self.header_bytes.as_mut_slice(),
            Some(_) => self.payload.as_mut_slice(),
        };
        part.get_mut(self.filled..).unwrap_or_default()
    }

    fn takes_descriptors(&self) -> bool {
        self.filled == 0 && self.header.is_some_and(self.takes)
    }

    fn filled(&mut self, bytes: usize) -> Result<Option<Frame>, ProtocolError> {
        self.filled += bytes;
        let header = match self.header {
            Some(header) => header,
            None if self.filled < FRAME_HEADER_BYTES => return Ok(None),
            None => {
                let header = FrameHeader::decode(self.header_bytes)?;
                // Allocated once a header came, at most 64 KiB.
                self.payload = vec![0; header.len];
                self.filled = 0;
                *self.header.insert(header)
            }
        };
        if self.filled < header.len {
            return Ok(None);
        }
        self.header = None;
        self.filled = 0;
        let payload = std::mem::take(&mut self.payload);
        let kind = header.kind;
        Ok(Some(Frame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_64(header: FrameHeader) -> bool {
        header.kind >= 64
    }

    /// Feeds `bytes` in pieces of at most `piece` bytes. Returns the frames, and for each read that
    /// takes descriptors the offset of its first byte.
    fn fed(bytes: &[u8], piece: usize) -> (Result<Vec<Frame>, ProtocolError>, Vec<usize>) {
        let (mut frames, mut taking) = (Vec::new(), Vec::new());
        let mut decoder = FrameDecoder::new(from_64);
        let mut at = 0;
        while at < bytes.len() {
            if decoder.takes_descriptors() {
                taking.push(at);
            }
            let room = decoder.room();
            let count = room.len().min(piece).min(bytes.len() - at);
            assert!(count > 0, "the decoder has room for more");
            room[..count].copy_from_slice(&bytes[at..at + count]);
            at += count;
            match decoder.filled(count) {
                Ok(frame) => frames.extend(frame),
                Err(error) => return (Err(error), taking),
            }
        }
        (Ok(frames), taking)
    }

    fn encoded(frame: &Frame) -> Vec<u8> {
        let (len, kind) = (frame.payload.len(), frame.kind);
        let header = FrameHeader { len, kind }.encode();
        [header.as_slice(), &frame.payload].concat()
    }

    #[test]
    fn descriptors_belong_to_the_first_byte_of_a_payload() {
        let frames = [(1, 3), (64, 3), (64, 0), (63, 1), (200, 1)].map(|(kind, len)| Frame {
            kind,
            payload: vec![7; len],
        });
        let bytes: Vec<u8> = frames.iter().flat_map(encoded).collect();
        for piece in [1, 2, 100] {
            let (decoded, taking) = fed(&bytes, piece);
            assert_eq!(decoded.as_deref(), Ok(&frames[..]));
            assert_eq!(taking, [8 + 5, 8 + 8 + 5 + 6 + 5], "piece {piece}");
        }
    }

    #[test]
    fn nothing_is_read_after_a_frame_that_is_too_long() {
        let mut decoder = FrameDecoder::new(from_64);
        decoder.room().fill(0xff);
        assert!(matches!(
            decoder.filled(FRAME_HEADER_BYTES),
            Err(ProtocolError::TooLong { .. })
        ));
        assert!(decoder.room().is_empty());
    }

    #[test]
    fn a_preamble_is_complete_after_its_last_byte() {
        let mut decoder = PreambleDecoder::default();
        for byte in 0..PREAMBLE_BYTES as u8 {
            decoder.room()[0] = byte;
            let whole = decoder.filled(1).unwrap();
            assert_eq!(whole.is_some(), usize::from(byte) == PREAMBLE_BYTES - 1);
        }
        assert!(decoder.room().is_empty());
    }

    proptest! {
        #[test]
        fn frames_are_the_same_in_whatever_pieces_they_come(
            frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..6),
            piece in 1_usize..50,
        ) {
            let frames: Vec<_> = frames.into_iter().map(|(kind, payload)| Frame { kind, payload }).collect();
            let bytes: Vec<u8> = frames.iter().flat_map(encoded).collect();
            prop_assert_eq!(fed(&bytes, piece).0, Ok(frames));
        }
    }
}
