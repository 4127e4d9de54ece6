//! Numbers of the parts that a message's decoder would make, counted on the raw bytes: an empty header takes two bytes
//! there, and a hundred times as many once it is decoded.
//!
//! Field numbers are those of [`super::wire`]. Fields that its messages do not have cost their decoder nothing.

use bytes::Buf as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use thiserror::Error;

/// Largest depth of messages in each other; the decoder's own limit is 100.
const DEPTH: usize = 64;
/// Memory of a header: three texts of the message, with a list that grows by doubling, and its entry of a map of headers.
const FIELD: usize = 576;
/// Memory of a value of metadata, with its place in a map or list that grows by doubling.
const VALUE: usize = 320;
/// Memory for each byte of a head: the decoder's copy, and that of the map of headers.
const HEAD_BYTE: usize = 2;
/// Memory for each byte of metadata: a list of addresses has 3 bytes for each, which takes 32 in memory.
const METADATA_BYTE: usize = 16;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected a message of envoy.service.ext_proc.v3, found bytes that are none")]
pub(super) struct Malformed;

/// Numbers of a message's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Number of header fields, trailers included.
    pub(super) fields: usize,
    /// Number of bytes of their names and values.
    pub(super) head_bytes: usize,
    /// Number of values of metadata, at any depth.
    pub(super) values: usize,
    /// Number of bytes of metadata.
    pub(super) metadata_bytes: usize,
    /// Number of bytes of a body.
    pub(super) body_bytes: usize,
}

impl Parts {
    /// Counts the parts of a message.
    pub(super) fn of(message: &[u8]) -> Result<Self, Malformed> {
        let mut parts = Self::default();
        parts.walk(message, Kind::Request, DEPTH)?;
        Ok(parts)
    }

    /// Most bytes that the decoded message takes, without its body, until its request is found a function.
    pub(super) const fn memory(&self) -> usize {
        let fields = self.fields.saturating_mul(FIELD);
        let values = self.values.saturating_mul(VALUE);
        let head = self.head_bytes.saturating_mul(HEAD_BYTE);
        let metadata = self.metadata_bytes.saturating_mul(METADATA_BYTE);
        fields
            .saturating_add(values)
            .saturating_add(head)
            .saturating_add(metadata)
    }

    fn walk(&mut self, mut message: &[u8], kind: Kind, depth: usize) -> Result<(), Malformed> {
        let depth = depth.checked_sub(1).ok_or(Malformed)?;
        while !message.is_empty() {
            let (number, wire_type) = decode_key(&mut message).map_err(|_| Malformed)?;
            let length = match wire_type {
                WireType::Varint => {
                    decode_varint(&mut message).map_err(|_| Malformed)?;
                    continue;
                }
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::LengthDelimited => {
                    let length = decode_varint(&mut message).map_err(|_| Malformed)?;
                    usize::try_from(length).map_err(|_| Malformed)?
                }
                // No message of the protocol has groups.
                WireType::StartGroup | WireType::EndGroup => return Err(Malformed),
            };
            let content = message.get(..length).ok_or(Malformed)?;
            message.advance(length);
            if wire_type == WireType::LengthDelimited
                && let Some(inner) = kind.inner(number)
            {
                self.count(inner, content, depth)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, kind: Kind, content: &[u8], depth: usize) -> Result<(), Malformed> {
        let add = |sum: &mut usize, more: usize| *sum = sum.saturating_add(more);
        match kind {
            Kind::HeaderText => {
                add(&mut self.head_bytes, content.len());
                return Ok(());
            }
            Kind::BodyBytes => {
                add(&mut self.body_bytes, content.len());
                return Ok(());
            }
            Kind::Header => add(&mut self.fields, 1),
            Kind::Metadata => add(&mut self.metadata_bytes, content.len()),
            Kind::NamedStruct | Kind::NamedValue | Kind::ListValue => add(&mut self.values, 1),
            Kind::Request
            | Kind::Head
            | Kind::Trailers
            | Kind::Headers
            | Kind::Body
            | Kind::Struct
            | Kind::Value
            | Kind::List => {}
        }
        self.walk(content, kind, depth)
    }
}

/// Kinds of messages and fields that take memory once decoded.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Request,
    Head,
    Trailers,
    Headers,
    Header,
    HeaderText,
    Body,
    BodyBytes,
    Metadata,
    /// Entry of a map from names to objects.
    NamedStruct,
    Struct,
    /// Entry of a map from names to values.
    NamedValue,
    Value,
    List,
    /// Value in a list.
    ListValue,
}

impl Kind {
    /// Kind of the field with this number, if it takes memory.
    const fn inner(self, number: u32) -> Option<Self> {
        Some(match (self, number) {
            (Self::Request, 2 | 3) => Self::Head,
            (Self::Request, 4 | 5) => Self::Body,
            (Self::Request, 6 | 7) => Self::Trailers,
            (Self::Request, 8) => Self::Metadata,
            (Self::Head | Self::Trailers, 1) => Self::Headers,
            (Self::Headers, 1) => Self::Header,
            (Self::Header, 1..=3) => Self::HeaderText,
            (Self::Body, 1) => Self::BodyBytes,
            (Self::Metadata, 1) => Self::NamedStruct,
            (Self::NamedStruct, 2) | (Self::Value | Self::ListValue, 5) => Self::Struct,
            (Self::Struct, 1) => Self::NamedValue,
            (Self::NamedValue, 2) => Self::Value,
            (Self::Value | Self::ListValue, 6) => Self::List,
            (Self::List, 1) => Self::ListValue,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::picker::wire::{
        HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers, Kind, ListValue, Metadata,
        Part, ProcessingRequest, Struct, Value,
    };

    fn headers(count: usize) -> HeaderMap {
        let header = HeaderValue {
            key: "a".to_owned(),
            value: "bc".to_owned(),
            raw_value: b"def"[..].into(),
        };
        HeaderMap {
            headers: vec![header; count],
        }
    }

    fn of(part: Part) -> Parts {
        let message = ProcessingRequest {
            request: Some(part),
            ..ProcessingRequest::default()
        };
        Parts::of(&message.encode_to_vec()).unwrap()
    }

    #[test]
    fn heads_trailers_and_bodies_are_counted() {
        let head = HttpHeaders {
            headers: Some(headers(3)),
            end_of_stream: true,
        };
        let trailers = HttpTrailers {
            trailers: Some(headers(3)),
        };
        for part in [
            Part::RequestHeaders(head.clone()),
            Part::ResponseHeaders(head),
            Part::RequestTrailers(trailers.clone()),
            Part::ResponseTrailers(trailers),
        ] {
            let parts = of(part);
            assert_eq!((parts.fields, parts.head_bytes), (3, 18));
        }
        let body = HttpBody {
            body: b"12345"[..].into(),
            end_of_stream: true,
        };
        for part in [Part::RequestBody(body.clone()), Part::ResponseBody(body)] {
            let expected = Parts {
                body_bytes: 5,
                ..Parts::default()
            };
            assert_eq!(of(part), expected);
        }
    }

    fn object(key: &str, value: Value) -> Struct {
        Struct {
            fields: [(key.to_owned(), value)].into(),
        }
    }

    #[test]
    fn values_of_metadata_are_counted_at_any_depth() {
        let list = ListValue {
            values: vec![Value::text("x"); 10],
        };
        let list = Value {
            kind: Some(Kind::List(list)),
        };
        let inner = Value {
            kind: Some(Kind::Object(object("a", list))),
        };
        let metadata = Metadata {
            filter_metadata: [("n".to_owned(), object("b", inner))].into(),
        };
        let length = metadata.encoded_len();
        let message = ProcessingRequest {
            metadata_context: Some(metadata),
            ..ProcessingRequest::default()
        };
        let parts = Parts::of(&message.encode_to_vec()).unwrap();
        assert_eq!((parts.values, parts.metadata_bytes), (13, length));
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        for bytes in [
            &[0x12, 5, 1][..],
            &[0x12, 0xff],
            &[0x0b, 0x0c],
            &[0x09, 1],
            &[0x00, 1],
            &[0xff; 12],
        ] {
            assert_eq!(Parts::of(bytes), Err(Malformed), "{bytes:?}");
        }
        let mut value = Value::text("x");
        for _ in 0..DEPTH {
            let values = vec![value];
            value = Value {
                kind: Some(Kind::List(ListValue { values })),
            };
        }
        let metadata = Metadata {
            filter_metadata: [("n".to_owned(), object("a", value))].into(),
        };
        let message = ProcessingRequest {
            metadata_context: Some(metadata),
            ..ProcessingRequest::default()
        };
        assert_eq!(
            Parts::of(&message.encode_to_vec()),
            Err(Malformed),
            "too deep"
        );
    }

    proptest! {
        /// The decoder never makes more than was counted.
        #[test]
        fn no_decoded_part_is_missed(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let bytes = [&[0x12, bytes.len() as u8][..], &bytes].concat();
            if let (Ok(parts), Ok(message)) = (Parts::of(&bytes), ProcessingRequest::decode(&bytes[..])) {
                let Some(Part::RequestHeaders(head)) = message.request else {
                    return Ok(());
                };
                let decoded = head.headers.map_or(0, |all| all.headers.len());
                prop_assert!(parts.fields >= decoded);
            }
        }
    }
}
