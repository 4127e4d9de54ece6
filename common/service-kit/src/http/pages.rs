//! Answers of pages that all daemons have: `/healthz`, `/readyz`, `/metrics`.

use std::fmt;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use thiserror::Error;

use crate::metrics;

/// Returns an answer of one text, with a line feed at its end.
pub fn text(status: StatusCode, body: impl Into<String>) -> Response {
    (status, body.into() + "\n").into_response()
}

/// The reasons why a process does not live, or is not ready, each on its line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", .0.join("\n"))]
pub struct NotReady(Vec<String>);

impl NotReady {
    /// Creates an error of one reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self(vec![reason.into()])
    }

    /// Returns an error with `reasons`, unless there are none.
    ///
    /// # Errors
    ///
    /// The reasons.
    pub fn unless_none(reasons: Vec<String>) -> Result<(), Self> {
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Self(reasons))
    }
}

/// Returns the answer to a probe: 200, or 503 and the reasons.
pub fn probe(result: Result<(), NotReady>) -> Response {
    match result {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Returns the page of metrics, or 500 if they could not be encoded.
pub fn metrics_page(encoded: Result<String, fmt::Error>) -> Response {
    match encoded {
        Ok(body) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], body).into_response(),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("metrics: {error}"),
        ),
    }
}
