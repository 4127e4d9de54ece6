//! Requests in the name of an account, each without an effect: the API server admits it as any other, and stores nothing.

use std::fmt;

use anyhow::{Result, bail, ensure};
use http::{Method, Request};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// An account that someone has the token of.
pub struct Account {
    name: &'static str,
    runtime: Runtime,
    client: Client,
}

/// The answer of the API server.
pub enum Answer {
    Allowed,
    /// By the account's roles.
    NoRight(String),
    /// By one of our policies.
    Policy(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed => f.write_str("allowed"),
            Self::NoRight(message) => write!(f, "refused by the roles: {message}"),
            Self::Policy(message) => write!(f, "refused by a policy: {message}"),
        }
    }
}

impl Account {
    /// Needs the right to impersonate it.
    pub fn new(name: &'static str) -> Result<Self> {
        let runtime = Runtime::new()?;
        let client = runtime.block_on(async {
            let mut config = Config::infer().await?;
            config.auth_info.impersonate = Some(name.to_owned());
            Ok::<_, anyhow::Error>(Client::try_from(config)?)
        })?;
        Ok(Self {
            name,
            runtime,
            client,
        })
    }

    /// Sends a request. A refusal for another reason, e.g. an invalid object, is an error: it implies nothing about rights.
    fn ask(&self, method: &Method, path: &str, kind: &str, body: &Value) -> Result<Answer> {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(format!("{path}?dryRun=All"))
            .header("content-type", kind)
            .body(body)?;
        let answer = self.runtime.block_on(self.client.request_text(request));
        let error = match answer {
            Ok(_) => return Ok(Answer::Allowed),
            Err(kube::Error::Api(error)) => error,
            Err(error) => return Err(error.into()),
        };
        let message = error.message.clone();
        if message.contains("ValidatingAdmissionPolicy 'tetris-") {
            return Ok(Answer::Policy(message));
        }
        if error.code == 403 && message.contains(" cannot ") {
            return Ok(Answer::NoRight(message));
        }
        bail!("{method} {path}: {} {message}", error.code)
    }

    /// Replaces an object.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Answer> {
        self.ask(&Method::PUT, path, "application/json", object)
    }

    /// Changes an object from `old` to `new`.
    pub fn patch(&self, path: &str, old: &Value, new: &Value) -> Result<Answer> {
        let patch = merge_patch(old, new);
        self.ask(&Method::PATCH, path, "application/merge-patch+json", &patch)
    }

    /// Creates an object, in the list at `path`.
    pub fn create(&self, path: &str, object: &Value) -> Result<Answer> {
        self.ask(&Method::POST, path, "application/json", object)
    }

    /// Deletes an object.
    pub fn delete(&self, path: &str) -> Result<Answer> {
        self.ask(&Method::DELETE, path, "application/json", &Value::Null)
    }

    /// Requires that a policy refuses what the account's roles allow.
    pub fn require_policy(&self, what: &str, answer: Result<Answer>) -> Result<()> {
        let answer = answer.map_err(|error| error.context(what.to_owned()))?;
        ensure!(
            matches!(answer, Answer::Policy(_)),
            "{}: {what}: {answer}",
            self.name
        );
        Ok(())
    }

    /// Requires that the account's roles do not allow it.
    pub fn require_no_right(&self, what: &str, answer: Result<Answer>) -> Result<()> {
        let answer = answer.map_err(|error| error.context(what.to_owned()))?;
        ensure!(
            matches!(answer, Answer::NoRight(_)),
            "{}: {what}: {answer}",
            self.name
        );
        Ok(())
    }

    /// Requires that the request passes.
    pub fn require_allowed(&self, what: &str, answer: Result<Answer>) -> Result<()> {
        let answer = answer.map_err(|error| error.context(what.to_owned()))?;
        ensure!(
            matches!(answer, Answer::Allowed),
            "{}: {what}: {answer}",
            self.name
        );
        Ok(())
    }
}

/// The patch of RFC 7396 that makes `new` of `old`.
fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let mut patch = json!({});
    for (key, value) in after {
        if before.get(key) != Some(value) {
            let old = before.get(key).unwrap_or(&Value::Null);
            patch[key] = merge_patch(old, value);
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        patch[key] = Value::Null;
    }
    patch
}

#[test]
fn a_patch_says_what_changed_and_what_is_gone() {
    let old = json!({"a": {"b": 1, "c": [1]}, "d": "e", "f": {}});
    let new = json!({"a": {"b": 2, "c": [1]}, "d": {"x": 1}, "g": 1});
    let patch = json!({"a": {"b": 2}, "d": {"x": 1}, "f": null, "g": 1});
    assert_eq!(merge_patch(&old, &new), patch);
    assert_eq!(merge_patch(&old, &old), json!({}));
}
