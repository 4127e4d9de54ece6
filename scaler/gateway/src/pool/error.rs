//! Errors of requests to instances.

use thiserror::Error;

/// The reason an instance gave no response.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nothing of the request was sent.
    #[error("cannot reach the instance: {0}")]
    NotSent(String),
    /// The request was sent, at least in part.
    #[error("the instance broke off: {0}")]
    Broken(hyper::Error),
}
