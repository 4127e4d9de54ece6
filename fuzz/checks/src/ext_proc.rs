//! Conditions on any bytes taken for a message of Envoy's external processing. Shared by the
//! fuzz target and the tests of the gateway.

use prost::Message as _;
use prost::bytes::Bytes;
use tetris_gateway::picker::decoding::{Counted, MessageLimits};
use tetris_gateway::picker::head;
use tetris_gateway::picker::wire::{Part, ProcessingRequest};

use tetris_test_support::heap::Bound;

/// Limits as they are without a configuration.
const LIMITS: MessageLimits = MessageLimits {
    fields: 100,
    head_bytes: 32 << 10,
};
/// Bytes for messages of errors, and tables of a map of headers.
const FIXED: usize = 8 << 10;

/// Counts and reads a message, and the head in it. Returns true if it has a part, whose head, if it is one of a
/// request, is valid.
///
/// # Panics
///
/// If a message is another one when it is written and read again, or takes more memory than was counted.
pub fn check(bytes: &[u8]) -> bool {
    let message = Bytes::copy_from_slice(bytes);
    let nothing = Bound {
        fixed: FIXED,
        per_byte: 0,
    };
    let Ok(counted) = nothing.hold(0, || Counted::of(message, LIMITS)) else {
        return false;
    };
    let of_parts = Bound {
        fixed: FIXED + counted.memory(),
        per_byte: 0,
    };
    let (decoded, request) = of_parts.hold(0, || {
        let decoded = counted.decode();
        let request = match &decoded {
            Ok(ProcessingRequest {
                request: Some(Part::RequestHeaders(found)),
                ..
            }) => Some(head::request(found)),
            _ => None,
        };
        (decoded, request)
    });
    let Ok(message) = decoded else {
        return false;
    };
    let again = ProcessingRequest::decode(message.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&message), "a message that is lost");
    match (&message.request, request) {
        (_, Some(Ok(request))) => {
            assert!(request.uri().path().starts_with('/') || request.uri().path() == "*");
            true
        }
        (_, Some(Err(problem))) => {
            assert!(problem.status.is_client_error(), "{problem:?}");
            false
        }
        (Some(Part::ResponseHeaders(found)), None) => head::status(found).is_some(),
        (part, None) => part.is_some(),
    }
}
