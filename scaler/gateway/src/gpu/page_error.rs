//! Reasons why an executor's page is refused.

use thiserror::Error;

use super::limits::{DEPTH, PARTS, PARTS_OF_POOL, RUN, SIZE};

/// The reason an executor's page is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// A text that its reader would have to copy.
    #[error("a name or number is longer than {RUN} bytes")]
    LongText,
    /// Lists and objects within each other.
    #[error("lists and objects are deeper than {DEPTH}")]
    Deep,
    /// An invalid field, or one above its limit.
    #[error("{0}")]
    Field(String),
    /// Too large a device.
    #[error("`capacity_bytes` is {0}, expected {SIZE} at most")]
    Capacity(u64),
    /// A model whose parts are wrong.
    #[error("model `{model}`: {problem}")]
    Model {
        /// Beginning of its name.
        model: String,
        /// The invalid field.
        problem: String,
    },
    /// Too large a model.
    #[error("model `{model}`: {bytes} bytes, expected {SIZE} at most")]
    Bytes {
        /// Beginning of its name.
        model: String,
        /// Number of bytes of its parts.
        bytes: u64,
    },
    /// Too many parts on the page.
    #[error("more parts than {PARTS}, expected that many at most")]
    Parts,
    /// Too many parts in the pool.
    #[error(
        "model `{model}`: {parts} parts make {all} in the pool, expected {PARTS_OF_POOL} at most"
    )]
    PartsOfPool {
        /// Name of the model.
        model: String,
        /// Number of its parts.
        parts: usize,
        /// Number of all parts with them.
        all: usize,
    },
    /// Too many parts of resident models.
    #[error("its resident models have {0} parts, expected {PARTS} at most")]
    ResidentParts(usize),
}
