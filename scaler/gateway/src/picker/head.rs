//! Heads of requests and responses, from the headers that a data plane sends.

use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, StatusCode, Uri, Version};

use super::wire::HttpHeaders;
use crate::problem::Problem;
use crate::proxy::headers;

/// Reads the head of a request.
///
/// # Errors
///
/// The answer to the client of a request without a valid head.
pub fn request(head: &HttpHeaders) -> Result<Request<()>, Problem> {
    let mut request = Request::new(());
    // Headers are those of HTTP/2, and gRPC is known by that.
    *request.version_mut() = Version::HTTP_2;
    let mut path = None;
    for header in head.headers.iter().flat_map(|all| &all.headers) {
        let value = HeaderValue::from_bytes(header.bytes()).map_err(|_| {
            bad(format!(
                "header {}: expected visible characters",
                shown(&header.key)
            ))
        })?;
        match header.key.as_str() {
            ":method" => {
                *request.method_mut() = Method::from_bytes(value.as_bytes())
                    .map_err(|_| bad("`:method`: expected a method".to_owned()))?;
            }
            ":path" => {
                path = Some(path_of(value.as_bytes()).ok_or_else(|| {
                    bad("`:path`: expected a path without a fragment".to_owned())
                })?);
            }
            ":authority" => {
                request.headers_mut().append(HOST, value);
            }
            name if name.starts_with(':') => {}
            name => {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                    bad(format!(
                        "expected a name of a header, found {}",
                        shown(name)
                    ))
                })?;
                request.headers_mut().append(name, value);
            }
        }
    }
    let path = path.ok_or_else(|| bad("expected the header `:path`, found none".to_owned()))?;
    *request.uri_mut() = Uri::from(path);
    let (parts, ()) = request.into_parts();
    headers::check(&parts)?;
    Ok(Request::from_parts(parts, ()))
}

/// Reads a path. `PathAndQuery` would cut off a fragment, which the data plane sends on: the instance would get another
/// path than the one that was checked.
fn path_of(value: &[u8]) -> Option<PathAndQuery> {
    let is_path = value.starts_with(b"/") || value == b"*";
    let is_whole = is_path && !value.contains(&b'#');
    is_whole.then(|| PathAndQuery::try_from(value).ok())?
}

/// Reads the status of a response.
pub fn status(head: &HttpHeaders) -> Option<StatusCode> {
    let mut all = head.headers.iter().flat_map(|all| &all.headers);
    let status = all.find(|header| header.key == ":status")?;
    StatusCode::from_bytes(status.bytes()).ok()
}

fn bad(problem: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-request", problem)
}

/// The beginning of a client's text.
fn shown(text: &str) -> String {
    format!(
        "`{}`",
        text.chars().take(64).collect::<String>().escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picker::wire;

    fn head(headers: &[(&str, &[u8])]) -> HttpHeaders {
        let headers = headers.iter().map(|&(key, value)| wire::HeaderValue {
            key: key.to_owned(),
            value: String::new(),
            raw_value: value.to_vec().into(),
        });
        HttpHeaders {
            headers: Some(wire::HeaderMap {
                headers: headers.collect(),
            }),
            end_of_stream: true,
        }
    }

    #[test]
    fn a_head_has_method_path_and_host() {
        let request_head = request(&head(&[
            (":method", b"POST"),
            (":path", b"/v1/x?y"),
            (":authority", b"embed"),
            (":scheme", b"http"),
            ("a", b"\xff"),
        ]))
        .unwrap();
        let (parts, ()) = request_head.into_parts();
        assert_eq!(
            (parts.method, parts.uri.to_string()),
            (Method::POST, "/v1/x?y".to_owned())
        );
        assert_eq!(parts.headers[HOST], "embed");
        assert_eq!(parts.headers["a"].as_bytes(), b"\xff");
    }

    #[test]
    fn heads_that_cannot_be_read_are_refused() {
        let path = (":path", &b"/"[..]);
        for wrong in [
            head(&[]),
            head(&[(":path", b"no path")]),
            head(&[(":path", b"#/v1/x")]),
            head(&[(":path", b"/v1/x#/../repository")]),
            head(&[(":path", b"**")]),
            head(&[path, (":method", b"A B")]),
            head(&[path, (":method", b"CONNECT")]),
            head(&[path, ("a b", b"")]),
            head(&[path, ("a", b"1\r\nb: 2")]),
            head(&[path, (":authority", b"a"), ("host", b"b")]),
            HttpHeaders::default(),
        ] {
            assert_eq!(
                request(&wrong).unwrap_err().status,
                StatusCode::BAD_REQUEST,
                "{wrong:?}"
            );
        }
        assert_eq!(status(&head(&[(":status", b"x")])), None);
        assert_eq!(
            status(&head(&[(":status", b"503")])),
            Some(StatusCode::SERVICE_UNAVAILABLE)
        );
    }
}
