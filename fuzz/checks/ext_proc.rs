//! Conditions on any bytes that are taken for a message of Envoy's external processing. Shared by the
//! fuzz target and the tests of the gateway.

use prost::Message as _;
use tetris_gateway::picker::head;
use tetris_gateway::picker::wire::{Part, ProcessingRequest};

use crate::heap::Bound;

/// An empty header takes 2 bytes of the message, and its fields 80 of memory, twice that where the list has
/// just grown.
pub const HEAP: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 88,
};

/// Reads a message, and the head in it. Returns true if it has a part, whose head, if it is one of a
/// request, is valid.
///
/// # Panics
///
/// If a message is another one when it is written and read again, or takes too much memory.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(message) = HEAP.hold(bytes.len(), || ProcessingRequest::decode(bytes)) else {
        return false;
    };
    let again = ProcessingRequest::decode(message.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&message), "a message that is lost");
    match &message.request {
        None => false,
        Some(Part::RequestHeaders(found)) => {
            match HEAP.hold(bytes.len(), || head::request(found)) {
                Ok(request) => {
                    assert!(request.uri().path().starts_with('/') || request.uri().path() == "*");
                    true
                }
                Err(problem) => {
                    assert!(problem.status.is_client_error(), "{problem:?}");
                    false
                }
            }
        }
        Some(Part::ResponseHeaders(found)) => head::status(found).is_some(),
        Some(_) => true,
    }
}
