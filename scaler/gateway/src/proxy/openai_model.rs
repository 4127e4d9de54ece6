//! Model of a request of OpenAI's API, which its body names.

use std::borrow::Cow;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Deserialize;

use crate::problem::{Problem, shortened};
use crate::routes::Routes;

/// The part of a body that counts here. All else is skipped.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
}

/// Returns true if the body of this request can name the model of an engine.
pub(super) fn is_named_by(routes: &Routes, parts: &Parts) -> bool {
    let path = parts.uri.path();
    let mut groups = routes.engine_groups().iter();
    parts.method == Method::POST && groups.any(|group| group.paths().serve("POST", path))
}

/// Returns the model that a body names.
///
/// # Errors
///
/// The answer to a body without a model, or with two: the engine might read the other one.
pub(super) fn model(body: &[u8]) -> Result<Cow<'_, str>, Problem> {
    serde_json::from_slice(body)
        .map(|named: Named<'_>| named.model)
        .map_err(|error| {
            let error = error.to_string();
            let message = format!(
                "the body names no model: {}; expected a JSON object with one text `model`. For other bodies use /functions/ENGINE/...",
                shortened(&error)
            );
            Problem::new(StatusCode::BAD_REQUEST, "no-model", message)
        })
}

/// The answer for a model that no engine serves.
pub(super) fn unknown(model: &str) -> Problem {
    let message = format!(
        "no engine serves the model {:?}; GET /v1/models lists the models",
        shortened(model)
    );
    Problem::new(StatusCode::NOT_FOUND, "model-not-found", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_model_is_named_wherever_it_stands() {
        for (body, expected) in [
            (&br#"{"model": "a/b"}"#[..], Some("a/b")),
            (
                br#"{"messages": [{"model": "x"}], "model": "a\n\u00e9"}"#,
                Some("a\n\u{e9}"),
            ),
            (br#"{"model": ""}"#, Some("")),
            (br#"{"model": "a", "model": "b"}"#, None),
            (br#"{"model": ["a"]}"#, None),
            (br#"{"model": "a"} x"#, None),
            (br#"{"model": "a""#, None),
            (b"{\"model\": \"\xff\"}", None),
            (br#"{"prompt": "model"}"#, None),
            (b"", None),
            (b"--boundary", None),
        ] {
            let name = model(body).ok();
            assert_eq!(
                name.as_deref(),
                expected,
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn deep_and_long_bodies_are_refused_with_a_short_message() {
        let deep = [&b"{\"a\": "[..], &b"[".repeat(1 << 20)].concat();
        let long = format!("{{\"{}\": 1}}", "k".repeat(1 << 20));
        for body in [&deep[..], long.as_bytes()] {
            let problem = model(body).unwrap_err();
            assert!(problem.message.len() < 600, "{}", problem.message.len());
        }
        assert!(unknown(&"m\u{7}".repeat(1_000)).message.len() < 2_000);
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_name_a_model_or_none(body: Vec<u8>) {
            drop(model(&body));
        }
    }
}
