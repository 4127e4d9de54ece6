//! Parts that the messages with alternatives are read by.
//!
//! An enum that serde reads by a tag, without one, or flattened is kept as a tree first, which takes 30
//! bytes of memory and more for each byte of a hostile message. So the fields of all alternatives are
//! read into a struct, and the alternative is made of that.

use thiserror::Error;

/// A field that the message's alternative has, and the message does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("missing field `{0}`")]
pub struct MissingField(pub &'static str);
