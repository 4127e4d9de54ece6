//! Errors of requests to instances.

use hyper::Request;
use thiserror::Error;

use super::RequestBody;

/// The reason an instance gave no response.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nothing of the request was sent.
    #[error("cannot reach the instance: {problem}")]
    NotSent {
        /// The whole request, for another instance.
        request: Box<Request<RequestBody>>,
        /// The reason.
        problem: String,
    },
    /// The request was sent, at least in part.
    #[error("the instance broke off: {0}")]
    Broken(hyper::Error),
}
