//! Tokens of callers in the heads of requests.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use serde::Deserialize;
use tetris_service_kit::token_reviews::bearer;

/// The part of a token that counts here.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    aud: Audiences,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Default for Audiences {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

/// Takes a bearer token for `audience` out of a head, so that no instance gets it. Others stay: they are for the instance,
/// such as keys of an API.
pub(super) fn take(headers: &mut HeaderMap, audience: &str) -> Option<String> {
    let values = headers.get_all(AUTHORIZATION).iter();
    let mut tokens = values.filter_map(|value| bearer(value.to_str().ok()?));
    let token = tokens.find(|token| is_for(token, audience))?.to_owned();
    headers.remove(AUTHORIZATION);
    Some(token)
}

/// Returns true if a token claims to be for `audience`. Only the API server knows if it is right.
fn is_for(token: &str, audience: &str) -> bool {
    let Some(payload) = token.split('.').nth(1) else {
        return false;
    };
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload);
    let claims = payload
        .ok()
        .and_then(|json| serde_json::from_slice(&json).ok());
    claims.is_some_and(|claims: Claims| match claims.aud {
        Audiences::One(only) => only == audience,
        Audiences::Several(all) => all.iter().any(|found| found == audience),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn token(claims: &Value) -> String {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        format!("e30.{payload}.c2ln")
    }

    fn head(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_token_for_the_gateway_goes_no_further() {
        for audience in [json!("gateway"), json!(["other", "gateway"])] {
            let token = token(&json!({"aud": audience, "sub": "x"}));
            let mut headers = head(&["Basic eA==", &format!("Bearer {token}")]);
            assert_eq!(take(&mut headers, "gateway"), Some(token));
            assert!(headers.is_empty());
        }
    }

    #[test]
    fn keys_and_tokens_for_others_go_on() {
        let other = format!("Bearer {}", token(&json!({"aud": ["other"]})));
        let none = format!("Bearer {}", token(&json!({"sub": "x"})));
        for value in [
            &*other,
            &*none,
            "Bearer sk-123",
            "Bearer a.b.c",
            "Bearer .!.",
            "Basic gateway",
        ] {
            let mut headers = head(&[value]);
            assert_eq!(take(&mut headers, "gateway"), None, "{value}");
            assert_eq!(headers.len(), 1);
        }
    }
}
