//! Access to the inventory: by a token that the API server vouches for, of an account that the
//! configuration names.
//!
//! An answer to a client without access has no body. [`tetris_service_kit::token_reviews`] has the rules of decisions.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tetris_service_kit::http::ClientAddress;
use tetris_service_kit::token_reviews::{Decision, ReviewLimits, Reviews, TokenReviewer, bearer};

/// Decides who may read the inventory.
#[derive(Debug)]
pub struct Gate<R> {
    reviews: Arc<Reviews<R>>,
}

/// Decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Admitted,
    /// No token, or none that is valid here.
    Unauthenticated,
    /// The token of another account.
    Forbidden,
    /// The address must wait.
    PutOff,
    /// The API server does not decide at the moment.
    Undecided,
}

impl<R: TokenReviewer> Gate<R> {
    /// Admits `clients`, by decisions of `reviewer`.
    pub fn new(
        reviewer: R,
        clients: impl IntoIterator<Item = String>,
        limits: ReviewLimits,
    ) -> Self {
        let reviews = Reviews::new(reviewer, "clients of the inventory", limits);
        Self {
            reviews: Arc::new(reviews.only(clients)),
        }
    }

    async fn decide(&self, address: IpAddr, headers: &HeaderMap) -> Access {
        let value = headers.get(AUTHORIZATION);
        let value = value.and_then(|value| value.to_str().ok());
        let Some(token) = value.and_then(bearer) else {
            return Access::Unauthenticated;
        };
        match self.reviews.decide(address, token).await {
            Decision::Account(_) => Access::Admitted,
            Decision::Unwanted => Access::Forbidden,
            Decision::Invalid => Access::Unauthenticated,
            Decision::PutOff => Access::PutOff,
            Decision::Undecided => Access::Undecided,
        }
    }
}

/// Admits a request, or answers it without a body.
pub(super) async fn admit<R: TokenReviewer>(
    State(gate): State<Arc<Gate<R>>>,
    request: Request,
    next: Next,
) -> Response {
    let address = request.extensions().get::<ClientAddress>();
    let address = address.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.0);
    let access = gate.decide(address, request.headers()).await;
    if access != Access::Admitted {
        tracing::debug!(%address, ?access, "a client of the inventory is refused");
    }
    let wait = || {
        [(
            RETRY_AFTER,
            HeaderValue::from(gate.reviews.limits().put_off.as_secs()),
        )]
    };
    let bearer = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    match access {
        Access::Admitted => next.run(request).await,
        Access::Unauthenticated => (StatusCode::UNAUTHORIZED, bearer).into_response(),
        Access::Forbidden => StatusCode::FORBIDDEN.into_response(),
        Access::PutOff => (StatusCode::TOO_MANY_REQUESTS, wait()).into_response(),
        Access::Undecided => (StatusCode::SERVICE_UNAVAILABLE, wait()).into_response(),
    }
}

#[cfg(test)]
mod tests;
