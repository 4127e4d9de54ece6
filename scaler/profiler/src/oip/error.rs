//! Errors of the inference protocol.

use thiserror::Error;

/// The reason a request to a server failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OipError {
    /// No answer so far.
    #[error("no answer yet")]
    Silent,
    /// A failure to create the HTTP client.
    #[error("cannot create an HTTP client: {0}")]
    Client(#[source] reqwest::Error),
    /// A request that failed in transport.
    #[error("cannot request {path}: {}", causes(source))]
    Http {
        /// Path of the request.
        path: String,
        /// Cause.
        #[source]
        source: reqwest::Error,
    },
    /// A refusal of the server.
    #[error("{path} answered {status}: {body}")]
    Status {
        /// Path of the request.
        path: String,
        /// HTTP status.
        status: u16,
        /// Beginning of the answer.
        body: String,
    },
    /// An answer that is too long.
    #[error("{path} answered more than {max} bytes, which is the limit")]
    Long {
        /// Path of the request.
        path: String,
        /// Limit, in bytes.
        max: usize,
    },
    /// An answer that does not follow the protocol.
    #[error("the answer of {path} does not follow the protocol: {reason}")]
    Malformed {
        /// Path of the request.
        path: String,
        /// Cause.
        reason: String,
    },
    /// An input for which no request can be made.
    #[error("input `{input}`: {reason}; give a request with --request")]
    Input {
        /// Name of the input.
        input: String,
        /// Cause.
        reason: String,
    },
}

/// Returns the root cause: reqwest's own text omits "connection refused".
fn causes(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
