//! Tokens of the scaler, each for one daemon.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::load::chain;

/// Requested life of a token in seconds: the shortest that the API server gives, and the longest
/// that the admission policy of the scaler's account allows. The API server may choose another.
const LIFE_SECONDS: i64 = 600;

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
    pub(super) async fn token(&self, audience: &str) -> Result<String, String> {
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
            .await
            .map_err(|error| chain(&error))?;
        let seconds = answer.spec.and_then(|spec| spec.expiration_seconds);
        let seconds = seconds.unwrap_or(LIFE_SECONDS);
        let life = Duration::from_secs(seconds.try_into().unwrap_or_default());
        let text = answer.status.and_then(|status| status.token);
        let text = text.ok_or("the API server answered without a token")?;
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
