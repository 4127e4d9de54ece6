//! Decoding of messages within limits: nothing is decoded that takes more memory than a data plane has.

use bytes::Bytes;
use hyper::StatusCode;
use prost::Message as _;
use tonic::Status;

use super::fields::Parts;
use super::wire::ProcessingRequest;
use crate::config::Limits;
use crate::problem::Problem;
use crate::server::too_many_fields;

/// Largest size of a message, in bytes, besides its body: a head of 60 KiB, which is Envoy's limit, with metadata.
pub const HEAD_BYTES: usize = 64 << 10;
/// Largest number of values in the metadata of a message.
pub const VALUES: usize = 1_024;

/// Limits of a message's parts.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// Largest number of header fields.
    pub fields: usize,
    /// Largest size of the names and values of a request's head, in bytes.
    pub head_bytes: usize,
}

impl MessageLimits {
    /// Limits of messages, from those of clients.
    pub const fn of(limits: &Limits) -> Self {
        Self {
            fields: limits.header_fields,
            head_bytes: limits.head_bytes,
        }
    }
}

/// The reason a message is not decoded.
#[derive(Debug)]
pub enum NotDecoded {
    /// A head that is too large: the client gets an answer.
    Head(Problem),
    /// Bytes that are no message, or too many values: the data plane gets a status.
    Message(Box<Status>),
}

/// A message whose parts are counted, and within limits.
#[derive(Clone, Debug)]
pub struct Counted {
    message: Bytes,
    parts: Parts,
}

impl Counted {
    /// Counts the parts of a message.
    ///
    /// # Errors
    ///
    /// Fails if there are more than `limits` say.
    pub fn of(message: Bytes, limits: MessageLimits) -> Result<Self, NotDecoded> {
        let wrong = |text: String| NotDecoded::Message(Box::new(Status::invalid_argument(text)));
        let parts = Parts::of(&message).map_err(|error| wrong(error.to_string()))?;
        if parts.fields > limits.fields {
            let problem = too_many_fields(parts.fields, limits.fields);
            return Err(NotDecoded::Head(problem));
        }
        if parts.head_bytes > limits.head_bytes {
            let problem = too_large(parts.head_bytes, limits.head_bytes);
            return Err(NotDecoded::Head(problem));
        }
        if parts.values > VALUES {
            return Err(wrong(format!(
                "the metadata has {} values, expected {VALUES} at most; forward fewer namespaces",
                parts.values
            )));
        }
        let rest = message.len().saturating_sub(parts.body_bytes);
        if rest > HEAD_BYTES {
            return Err(wrong(format!(
                "the message has {rest} bytes besides a body, expected {HEAD_BYTES} at most; forward fewer attributes"
            )));
        }
        Ok(Self { message, parts })
    }

    /// Most bytes that the message takes once decoded, without its body.
    pub const fn memory(&self) -> usize {
        self.parts.memory()
    }

    /// Decodes the message. Its body is a part of the message's own bytes.
    ///
    /// # Errors
    ///
    /// A status for bytes that are no message.
    pub fn decode(self) -> Result<ProcessingRequest, Box<Status>> {
        ProcessingRequest::decode(self.message)
            .map_err(|error| Box::new(Status::invalid_argument(error.to_string())))
    }
}

/// A head of more than `most` bytes.
fn too_large(found: usize, most: usize) -> Problem {
    let problem = format!("the head has {found} bytes, expected {most} at most (limits.head)");
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Problem::new(status, "head-size", problem)
}

/// A message with a head that has more than `most` bytes.
pub(super) fn too_large_message(found: usize, most: usize) -> Problem {
    let problem = format!("the head and its metadata have {found} bytes, expected {most} at most");
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Problem::new(status, "head-size", problem)
}
