//! What goes wrong in the inference protocol.

use thiserror::Error;

/// Why a server cannot be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OipError {
    /// Nothing has answered yet.
    #[error("it has not answered")]
    Silent,
    /// There is no HTTP client.
    #[error("cannot make an HTTP client: {0}")]
    Client(#[source] reqwest::Error),
    /// A request failed on its way.
    #[error("cannot ask {path}: {}", causes(source))]
    Http {
        /// What was asked for.
        path: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("{path} answered {status}: {body}")]
    Status {
        /// What was asked for.
        path: String,
        /// The status code.
        status: u16,
        /// The beginning of the answer.
        body: String,
    },
    /// The answer is longer than any that is expected.
    #[error("{path} answered more than {max} bytes")]
    Long {
        /// What was asked for.
        path: String,
        /// The limit.
        max: usize,
    },
    /// The answer is not what the protocol says.
    #[error("the answer of {path} is not what the Open Inference Protocol has: {reason}")]
    Malformed {
        /// What was asked for.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// No request can be made from the model's metadata.
    #[error("input `{input}`: {reason}; give a request with --request")]
    Input {
        /// The input's name.
        input: String,
        /// What is wrong.
        reason: String,
    },
}

/// An error and what is behind it: reqwest's own text leaves out "connection refused".
fn causes(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
