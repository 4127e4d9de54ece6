//! Shape of a message, before it is decoded: an empty header has 2 bytes, and takes 80 of memory.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use thiserror::Error;

/// Largest size of a message without the bytes of a body: a head of 60 KiB, which is Envoy's limit, with metadata.
pub const HEAD_BYTES: usize = 64 << 10;
/// Largest number of headers of one message. Those of a request have a lower limit, the proxy's, once they are decoded.
const HEADERS: usize = 1_024;

/// Fields of a message with a head or trailers, and with a body.
const HEADS: [u32; 4] = [2, 3, 6, 7];
const BODIES: [u32; 2] = [4, 5];
/// Field of the headers within a head, and of each one within these.
const ALL: u32 = 1;
const EACH: u32 = 1;

/// A message that is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// Too many bytes besides a body.
    #[error("expected at most {HEAD_BYTES} bytes besides a body")]
    Bytes,
    /// Too many headers.
    #[error("expected at most {HEADERS} headers in a message")]
    Headers,
}

/// Checks that decoding `message` takes memory in proportion to its length. The decoder finds other faults.
///
/// # Errors
///
/// Fails if it has too many headers, or bytes outside of a body.
pub fn check(message: &[u8]) -> Result<(), ShapeError> {
    let mut others = 0_usize;
    let mut headers = 0_usize;
    for (field, length, part) in Fields(message) {
        if BODIES.contains(&field) {
            continue;
        }
        others = others.saturating_add(length);
        if others > HEAD_BYTES {
            return Err(ShapeError::Bytes);
        }
        if !HEADS.contains(&field) {
            continue;
        }
        let lists = Fields(part).filter(|(field, ..)| *field == ALL);
        for header in lists.flat_map(|(_, _, list)| Fields(list)) {
            headers = headers.saturating_add(usize::from(header.0 == EACH));
            if headers > HEADERS {
                return Err(ShapeError::Headers);
            }
        }
    }
    Ok(())
}

/// Fields of a message, up to the first that is not valid: number, length with its prefix, and contents.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.0.len();
        if before == 0 {
            return None;
        }
        let (field, kind) = decode_key(&mut self.0).ok()?;
        let length = match kind {
            WireType::Varint => {
                decode_varint(&mut self.0).ok()?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut self.0).ok()?).ok()?,
            // Groups, which no message of the protocol has, nest.
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let contents = self.0.get(..length)?;
        self.0.advance(length);
        Some((field, before.saturating_sub(self.0.len()), contents))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::picker::wire::{
        HeaderMap, HeaderValue, HttpBody, HttpHeaders, Part, ProcessingRequest,
    };

    fn message(part: Part) -> Vec<u8> {
        let message = ProcessingRequest {
            request: Some(part),
            ..ProcessingRequest::default()
        };
        message.encode_to_vec()
    }

    fn head(count: usize, value: &str) -> Vec<u8> {
        let header = HeaderValue {
            value: value.to_owned(),
            ..HeaderValue::default()
        };
        let headers = Some(HeaderMap {
            headers: vec![header; count],
        });
        message(Part::ResponseHeaders(HttpHeaders {
            headers,
            end_of_stream: true,
        }))
    }

    #[test]
    fn heads_are_limited_in_bytes_and_headers_and_bodies_are_not() {
        assert_eq!(check(&head(HEADERS, "")), Ok(()));
        assert_eq!(check(&head(HEADERS + 1, "")), Err(ShapeError::Headers));
        assert_eq!(check(&head(100, &"x".repeat(600))), Ok(()));
        assert_eq!(check(&head(100, &"x".repeat(700))), Err(ShapeError::Bytes));
        let body = HttpBody {
            body: vec![b'x'; 1 << 20].into(),
            end_of_stream: true,
        };
        assert_eq!(check(&message(Part::RequestBody(body))), Ok(()));
        // Decoders join parts of one field.
        let twice = [head(HEADERS, ""), head(1, "")].concat();
        assert_eq!(check(&twice), Err(ShapeError::Headers));
    }

    #[test]
    fn what_is_cut_off_is_left_to_the_decoder() {
        let whole = head(10, "text");
        for length in 0..whole.len() {
            assert_eq!(check(&whole[..length]), Ok(()));
        }
        assert_eq!(check(&[0x0b, 0xff]), Ok(()));
    }
}
