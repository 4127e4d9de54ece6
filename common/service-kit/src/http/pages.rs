//! Answers of pages that all daemons have: `/healthz`, `/readyz`, `/metrics`.

use std::fmt;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::metrics;

/// Returns an answer of one text, with a line feed at its end.
pub fn text(status: StatusCode, body: impl Into<String>) -> Response {
    (status, body.into() + "\n").into_response()
}

/// Returns the answer to a probe: 200, or 503 and the reason.
pub fn probe(result: Result<(), String>) -> Response {
    match result {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
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
