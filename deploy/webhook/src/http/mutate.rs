//! Reviews over HTTP.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tetris_service_kit::http::text;
use tokio::time::Instant;

use super::Shared;
use super::limits::ReviewTurn;
use crate::inject::Scope;
use crate::review::review;

/// Answers a request that has arrived.
pub(super) async fn mutate(
    State(shared): State<Shared>,
    scope: Scope,
    turn: Option<Extension<ReviewTurn>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(&shared, rejection.status(), &rejection.body_text()),
    };
    let _turn = match &turn {
        Some(Extension(turn)) => turn.wait().await,
        None => None,
    };
    let began = Instant::now();
    match review(&body, scope, &shared.options) {
        Ok(review) => {
            let seconds = began.elapsed().as_secs_f64();
            shared
                .metrics
                .reviewed(review.outcome, review.warnings, seconds);
            Json(review.body).into_response()
        }
        Err(error) => refuse(&shared, StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

fn refuse(shared: &Shared, status: StatusCode, reason: &str) -> Response {
    shared.metrics.malformed();
    // Serde quotes what it found, which may be long.
    let reason: String = reason.chars().take(512).collect();
    tracing::warn!(status = status.as_u16(), "refused a request: {reason}");
    text(status, reason)
}
