//! Tokens of the scaler, each for one daemon.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::Instant;

use crate::load::chain;

/// Requested life of a token in seconds: the shortest that the API server gives, and the longest
/// that the admission policy of the scaler's account allows. The API server may choose another.
const LIFE_SECONDS: i64 = 600;

/// The reason there is no token.
#[derive(Debug, Error)]
pub(super) enum TokenError {
    /// A refusal of the API server, or no connection to it.
    #[error("{}", chain(.0))]
    Api(#[from] kube::Error),
    /// An answer without a token.
    #[error("the API server answered without a token")]
    Empty,
}

/// Tokens of a service account for audiences, from the API server. Each is used for four fifths of
/// its life.
pub struct Tokens {
    client: Client,
    namespace: String,
    account: String,
    pod: Option<String>,
    made: Mutex<HashMap<String, Token>>,
}

#[derive(Clone)]
struct Token {
    text: String,
    until: Instant,
}

fn bound_to(pod: &str) -> BoundObjectReference {
    BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.to_owned()),
        uid: None,
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tokens")
            .field("namespace", &self.namespace)
            .field("account", &self.account)
            .field("pod", &self.pod)
            .finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens of the service account `account` in `namespace`, whose own client may make them. They
    /// end with the pod `pod` of that namespace, if one is given.
    pub fn new(client: Client, namespace: &str, account: &str, pod: Option<&str>) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            account: account.to_owned(),
            pod: pod.map(str::to_owned),
            made: Mutex::default(),
        }
    }

    /// Returns a token for `audience`.
    ///
    /// # Errors
    ///
    /// Fails if the API server makes none.
    pub(super) async fn token(&self, audience: &str) -> Result<String, TokenError> {
        let now = Instant::now();
        if let Some(token) = self.made().get(audience).filter(|token| now < token.until) {
            return Ok(token.text.clone());
        }
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec![audience.to_owned()]),
                bound_object_ref: self.pod.as_deref().map(bound_to),
                expiration_seconds: Some(LIFE_SECONDS),
            }),
            ..TokenRequest::default()
        };
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), &self.namespace);
        let parameters = PostParams::default();
        let answer = accounts
            .create_token_request(&self.account, &parameters, &request)
            .await?;
        let seconds = answer.spec.and_then(|spec| spec.expiration_seconds);
        let seconds = seconds.unwrap_or(LIFE_SECONDS);
        let life = Duration::from_secs(seconds.try_into().unwrap_or_default());
        let text = answer.status.and_then(|status| status.token);
        let text = text.ok_or(TokenError::Empty)?;
        let token = Token {
            text: text.clone(),
            until: now + life * 4 / 5,
        };
        let mut made = self.made();
        // Daemons that were replaced have other audiences now.
        made.retain(|_, token| now < token.until);
        made.insert(audience.to_owned(), token);
        Ok(text)
    }

    /// Forgets the token for `audience`, which its server refused.
    pub(super) fn forget(&self, audience: &str) {
        self.made().remove(audience);
    }

    fn made(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::extract::State;
    use axum::http::Uri;
    use axum::{Json, Router};
    use serde_json::{Value, json};

    use super::*;

    type Asked = Arc<Mutex<Vec<(String, Value)>>>;

    async fn answer(
        State(asked): State<Asked>,
        uri: Uri,
        Json(request): Json<Value>,
    ) -> Json<Value> {
        let mut asked = asked.lock().unwrap();
        asked.push((uri.path().to_owned(), request["spec"].clone()));
        let expires = "2030-01-01T00:00:00Z";
        let status =
            json!({"token": format!("token-{}", asked.len()), "expirationTimestamp": expires});
        Json(json!({"metadata": {}, "spec": request["spec"], "status": status}))
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_for_one_daemon_for_ten_minutes_and_ends_with_the_pod() {
        let asked = Asked::default();
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&asked));
        let client = Client::new(router, "default");
        let tokens = Tokens::new(client, "tetris-system", "tetris-scaler", Some("scaler-0"));
        // Used again for four fifths of its life.
        for (seconds, expected) in [(0, "token-1"), (479, "token-1"), (2, "token-2")] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(tokens.token("daemon-a").await.unwrap(), expected);
        }
        let (path, spec) = asked.lock().unwrap()[0].clone();
        let account = "/api/v1/namespaces/tetris-system/serviceaccounts/tetris-scaler/token";
        assert_eq!(path, account);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "scaler-0"});
        let expected =
            json!({"audiences": ["daemon-a"], "expirationSeconds": 600, "boundObjectRef": pod});
        assert_eq!(spec, expected);
        assert_eq!(tokens.token("daemon-b").await.unwrap(), "token-3");
        assert_eq!(asked.lock().unwrap().len(), 3);
    }
}
