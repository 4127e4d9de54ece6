//! Errors of requests to instances.

use std::io;
use std::time::Duration;

use hyper::Request;
use thiserror::Error;
use tokio::task::JoinError;

use super::RequestBody;

/// The reason there is no connection to an instance.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A failed system call.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A failure of HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The runtime of the connection ends.
    #[error(transparent)]
    Runtime(#[from] JoinError),
    /// The instance does not accept in time.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
}

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
        problem: ConnectError,
    },
    /// The request was sent, at least in part.
    #[error("the instance broke off: {0}")]
    Broken(hyper::Error),
}
