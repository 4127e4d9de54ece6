//! Decisions of the API server about tokens.

use std::error::Error;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{ReviewError, TokenReviewer};

const RIGHTS: &str = "allow the daemon's service account to create tokenreviews";

/// Asks the API server about tokens for one audience.
#[derive(Clone)]
pub struct TokenReviews {
    client: Client,
    audience: String,
}

impl std::fmt::Debug for TokenReviews {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TokenReviews")
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

impl TokenReviews {
    /// Asks through `client` about tokens for `audience`.
    pub fn new(client: Client, audience: &str) -> Self {
        let audience = audience.to_owned();
        Self { client, audience }
    }
}

impl TokenReviewer for TokenReviews {
    async fn review(&self, token: &str) -> Result<Option<String>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![self.audience.clone()]),
                token: token.to_owned(),
            },
            ..TokenReview::default()
        };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| ReviewError {
            problem: format!(
                "the API server does not review tokens: {}",
                root_cause(&error)
            ),
            next_step: next_step(&error),
        })?;
        let status = answer.status.unwrap_or_default();
        // An authenticator that knows no audiences reveals nothing of them, and its answer proves
        // nothing here.
        let is_for_us = status
            .audiences
            .is_some_and(|audiences| audiences.contains(&self.audience));
        let user = status.user.and_then(|user| user.username);
        Ok(user.filter(|_| status.authenticated == Some(true) && is_for_us))
    }
}

fn next_step(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            "check the token of the daemon's service account"
        }
        kube::Error::Api(status) if status.code == 403 => RIGHTS,
        _ => "check that this node reaches the API server",
    }
}

/// The innermost cause, which wrappers tend not to print.
fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}
