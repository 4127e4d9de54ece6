//! Heads of requests and responses as they go on.

use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};

use super::{ResponseBody, WAIT, is_grpc};
use crate::client_address::ClientAddress;
use crate::pool::RequestBody;
use crate::problem::Problem;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Headers of one connection (RFC 9110 7.6.1), besides those that `Connection` names.
const OF_ONE_CONNECTION: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Headers for the gateway alone: the body of a request is there before it goes on.
const OF_GATEWAY: [HeaderName; 2] = [EXPECT, WAIT];

/// Refuses heads that servers might read in different ways. hyper has refused lengths that
/// contradict each other.
pub(crate) fn check(parts: &Parts) -> Result<(), Problem> {
    let bad =
        |problem: &str| Problem::new(StatusCode::BAD_REQUEST, "bad-request", problem.to_owned());
    if parts.method == Method::CONNECT {
        return Err(bad(
            "CONNECT is not supported; send the request to the gateway itself",
        ));
    }
    // One pass over the few names, in the place of a search by hash for each of these three.
    let (mut hosts, mut coded, mut counted) = (0_usize, false, false);
    for name in parts.headers.iter().map(|(name, _)| name) {
        hosts = hosts.saturating_add(usize::from(name == HOST));
        coded |= name == TRANSFER_ENCODING;
        counted |= name == CONTENT_LENGTH;
    }
    if hosts > 1 {
        return Err(bad("found several Host headers, expected one"));
    }
    if coded && counted {
        return Err(bad(
            "found Content-Length and Transfer-Encoding, expected one of them",
        ));
    }
    Ok(())
}

/// Host of a request: that of its URI, or of its header.
pub(super) fn host(parts: &Parts) -> Option<&str> {
    let authority = parts.uri.authority().map(Authority::as_str);
    authority.or_else(|| parts.headers.get(HOST)?.to_str().ok())
}

/// Makes the head of a request one for an instance, with a body of `length` bytes.
pub(super) fn for_instance(parts: &mut Parts, client: ClientAddress, length: usize) {
    let authority = parts.uri.authority().map(Authority::as_str);
    if let Some(host) = authority.and_then(|host| HeaderValue::try_from(host).ok()) {
        parts.headers.insert(HOST, host);
    }
    // The path alone: an HTTP/1 request has its host in a header, and HTTP/2 gets its own form later.
    if parts.uri.path_and_query().is_none() || parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    }
    // What hyper knows of the client's connection.
    parts.extensions.clear();
    let grpc = is_grpc(&parts.headers, parts.version);
    remove_of_one_connection(&mut parts.headers);
    if has_any(&parts.headers, &OF_GATEWAY) {
        for name in &OF_GATEWAY {
            parts.headers.remove(name);
        }
    }
    if grpc {
        parts.headers.remove(CONTENT_LENGTH);
        parts
            .headers
            .insert(TE, HeaderValue::from_static("trailers"));
        parts.version = Version::HTTP_2;
    } else {
        let has_body = length > 0
            || !matches!(
                parts.method,
                Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE
            );
        if has_body {
            parts
                .headers
                .insert(CONTENT_LENGTH, HeaderValue::from(length));
        } else {
            parts.headers.remove(CONTENT_LENGTH);
        }
        parts.version = Version::HTTP_11;
    }
    let others = parts.headers.get(FORWARDED_FOR);
    let mut all = Vec::new();
    if let Some(others) = others {
        all.extend_from_slice(others.as_bytes());
        all.extend_from_slice(b", ");
    }
    client.write_ip(&mut all);
    if let Ok(value) = HeaderValue::try_from(all) {
        parts.headers.insert(FORWARDED_FOR, value);
    }
}

/// Puts the host of a request by HTTP/2 into its URI: its own, or else the instance's `address`. It stays there for
/// the next instance, if this one gets nothing of the request.
pub(super) fn address(request: &mut Request<RequestBody>, address: SocketAddr) {
    if request.version() != Version::HTTP_2 || request.uri().authority().is_some() {
        return;
    }
    // HTTP/2 has the authority in the URI, and no Host.
    let host = request.headers_mut().remove(HOST);
    let host = host.as_ref().and_then(|host| host.to_str().ok());
    let authority = host.map_or_else(|| address.to_string(), str::to_owned);
    let path = request.uri().path_and_query().cloned();
    let uri = Uri::builder().scheme("http").authority(authority);
    let uri = uri.path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    if let Ok(uri) = uri.build() {
        *request.uri_mut() = uri;
    }
}

/// Makes an instance's response one for the client.
pub(super) fn for_client(
    response: Response<Incoming>,
    body: impl FnOnce(Incoming) -> ResponseBody,
) -> Response<ResponseBody> {
    let (mut parts, incoming) = response.into_parts();
    remove_of_one_connection(&mut parts.headers);
    parts.version = Version::HTTP_11;
    Response::from_parts(parts, body(incoming))
}

/// Returns true if one of the names is there; most heads have none of those that do not go on.
fn has_any(headers: &HeaderMap, names: &[HeaderName]) -> bool {
    headers.keys().any(|name| names.contains(name))
}

fn remove_of_one_connection(headers: &mut HeaderMap) {
    if !has_any(headers, &OF_ONE_CONNECTION) {
        return;
    }
    let named = headers.get_all(CONNECTION).iter();
    let named = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let named: Vec<HeaderName> = named.filter_map(|name| name.trim().parse().ok()).collect();
    for name in named.iter().chain(&OF_ONE_CONNECTION) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::post("/v2/models/m/infer");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn client() -> ClientAddress {
        ClientAddress("10.0.0.7:999".parse().unwrap())
    }

    #[test]
    fn headers_of_one_connection_do_not_go_on() {
        let mut parts = parts(&[
            ("host", "m"),
            ("connection", "close, X-Own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("x-other", "2"),
            ("x-forwarded-for", "1.2.3.4"),
        ]);
        for_instance(&mut parts, client(), 5);
        let mut names: Vec<_> = parts.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["content-length", "host", "x-forwarded-for", "x-other"]
        );
        assert_eq!(parts.headers[CONTENT_LENGTH], "5");
        assert_eq!(parts.headers[FORWARDED_FOR], "1.2.3.4, 10.0.0.7");
    }

    #[test]
    fn an_http1_request_has_its_path_alone_and_its_host_in_a_header() {
        for (uri, path) in [
            (
                "http://embed.search/v2/models/m/infer?x=1",
                "/v2/models/m/infer?x=1",
            ),
            ("http://embed.search", "/"),
        ] {
            let mut parts = parts(&[("host", "other")]);
            parts.uri = uri.parse().unwrap();
            for_instance(&mut parts, client(), 0);
            assert_eq!(
                (&parts.uri, parts.headers[HOST].as_bytes()),
                (&path.parse().unwrap(), &b"embed.search"[..])
            );
        }
    }

    #[test]
    fn heads_that_can_be_read_in_two_ways_are_refused() {
        for headers in [
            &[("host", "a"), ("host", "b")][..],
            &[("content-length", "3"), ("transfer-encoding", "chunked")],
        ] {
            assert_eq!(
                check(&parts(headers)).unwrap_err().status,
                StatusCode::BAD_REQUEST,
                "{headers:?}"
            );
        }
        assert!(check(&parts(&[("host", "a")])).is_ok());
    }

    #[test]
    fn grpc_goes_on_by_http2_with_the_clients_authority() {
        let mut parts = parts(&[
            ("content-type", "application/grpc"),
            ("content-length", "9"),
            ("te", "trailers"),
        ]);
        parts.version = Version::HTTP_2;
        parts.uri = "http://embed.search/inference.GRPCInferenceService/ModelInfer"
            .parse()
            .unwrap();
        for_instance(&mut parts, client(), 9);
        let mut request = Request::from_parts(parts, RequestBody::default());
        // A second instance after one that could not be reached changes nothing.
        for instance in ["10.0.0.1:80", "10.0.0.2:80"] {
            address(&mut request, instance.parse().unwrap());
            assert_eq!(
                request.uri(),
                "http://embed.search/inference.GRPCInferenceService/ModelInfer"
            );
        }
        assert_eq!(
            (request.version(), request.headers()[TE].as_bytes()),
            (Version::HTTP_2, &b"trailers"[..])
        );
        assert!(
            !request.headers().contains_key(HOST)
                && !request.headers().contains_key(CONTENT_LENGTH)
        );
    }
}
