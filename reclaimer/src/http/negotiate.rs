//! Conditional requests and accepted encodings.

use axum::http::header::{ACCEPT_ENCODING, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// Returns true if `If-None-Match` names the tag, compared weakly (RFC 9110, 13.1.2).
pub(crate) fn matches(asked: &HeaderMap, tag: Option<&HeaderValue>) -> bool {
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else {
        return false;
    };
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    listed(asked, &IF_NONE_MATCH).any(|item| item == "*" || opaque(item) == opaque(tag))
}

/// Returns true if `Accept-Encoding` names gzip and does not rule it out.
pub(crate) fn accepts_gzip(asked: &HeaderMap) -> bool {
    listed(asked, &ACCEPT_ENCODING).any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        coding.trim().eq_ignore_ascii_case("gzip") && weight.parse().is_ok_and(|q: f32| q > 0.0)
    })
}

/// Items of a header that is a list.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}
