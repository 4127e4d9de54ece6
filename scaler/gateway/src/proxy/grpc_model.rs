//! Model of a gRPC request of the Open Inference Protocol, which its message alone names.

use hyper::http::request::Parts;
use prost::Message as _;

use super::is_grpc;

/// Methods with the model's name as the first field of their message.
const METHODS: [&str; 3] = [
    "/inference.GRPCInferenceService/ModelInfer",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelReady",
];
/// Flag and length before a message.
const PREFIX: usize = 5;

/// The part of a message that counts here. Decoding skips the tensors.
#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    model: String,
}

/// Returns true if the body of this request can name a model.
pub(super) fn is_named_by(parts: &Parts) -> bool {
    is_grpc(&parts.headers, parts.version) && METHODS.contains(&parts.uri.path())
}

/// Returns the model that the first message of a body names. A compressed message cannot be read.
#[expect(clippy::big_endian_bytes, reason = "gRPC's lengths are")]
pub(super) fn model(body: &[u8]) -> Option<String> {
    let (prefix, rest) = body.split_first_chunk::<PREFIX>()?;
    let [0, length @ ..] = *prefix else {
        return None;
    };
    let message = rest.get(..u32::from_be_bytes(length) as usize)?;
    let named = Named::decode(message).ok()?;
    (!named.model.is_empty()).then_some(named.model)
}

#[cfg(test)]
#[expect(clippy::big_endian_bytes, reason = "gRPC's lengths are")]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_the_first_message_names_the_model() {
        // model_name "m1", id "x", and a byte of a second message.
        let body = b"\0\0\0\0\x07\x0a\x02m1\x1a\x01x\0";
        assert_eq!(model(body).as_deref(), Some("m1"));
        for wrong in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\0",
            b"\0\0\0\0\x08\x0a\x02m1\x1a\x01x",
            b"\x01\0\0\0\x07\x0a\x02m1\x1a\x01x",
            b"\0\0\0\0\x04\x0a\x7fm1",
            b"\0\xff\xff\xff\xff\x0a\x02m1",
            b"\0\0\0\0\x04\x0a\x02\xff\xff",
        ] {
            assert_eq!(model(wrong), None, "{wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_name_a_model_or_none(body: Vec<u8>, length in 0u32..64) {
            model(&body);
            let [a, b, c, d] = length.to_be_bytes();
            model(&[&[0, a, b, c, d], &body[..]].concat());
        }

        #[test]
        fn a_name_comes_back_whatever_is_around_it(name in "\\PC{1,40}", tensors: Vec<u8>, next: Vec<u8>) {
            let mut message = Named { model: name.clone() }.encode_to_vec();
            // `raw_input_contents`, a field that the parser skips.
            prost::encoding::bytes::encode(7, &tensors, &mut message);
            let length = u32::try_from(message.len()).expect("short").to_be_bytes();
            let body = [&[0], &length[..], &message, &next].concat();
            proptest::prop_assert_eq!(model(&body), Some(name));
        }
    }
}
