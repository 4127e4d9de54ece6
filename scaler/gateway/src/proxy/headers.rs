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
    if parts.headers.get_all(HOST).iter().count() > 1 {
        return Err(bad("found several Host headers, expected one"));
    }
    let has = |name| parts.headers.contains_key(name);
    if has(TRANSFER_ENCODING) && has(CONTENT_LENGTH) {
        return Err(bad(
            "found Content-Length and Transfer-Encoding, expected one of them",
        ));
    }
    Ok(())
}

/// Host of a request: that of its URI, or of its header.
pub(super) fn host(parts: &Parts) -> Option<&str> {
    let own = parts.uri.authority().map(Authority::as_str);
    own.or_else(|| parts.headers.get(HOST)?.to_str().ok())
}

/// URI of a path alone.
pub(crate) fn with_path(path: PathAndQuery) -> Uri {
    Uri::from(path)
}

/// Makes the head of a request one for an instance, with a body of `length` bytes.
pub(super) fn for_instance(parts: &mut Parts, client: ClientAddress, length: usize) {
    if let Some(host) = host(parts).and_then(|host| HeaderValue::try_from(host).ok()) {
        parts.headers.insert(HOST, host);
    }
    let grpc = is_grpc(&parts.headers, parts.version);
    remove_of_one_connection(&mut parts.headers);
    // The body is here already.
    parts.headers.remove(EXPECT);
    parts.headers.remove(WAIT);
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
    let others = parts
        .headers
        .get(FORWARDED_FOR)
        .and_then(|value| value.to_str().ok());
    let all = match others {
        Some(others) => format!("{others}, {}", client.0.ip()),
        None => client.0.ip().to_string(),
    };
    if let Ok(value) = HeaderValue::try_from(all) {
        parts.headers.insert(FORWARDED_FOR, value);
    }
}

/// A request with this head for the instance at `address`.
pub(super) fn request(
    parts: &Parts,
    address: SocketAddr,
    body: RequestBody,
) -> Request<RequestBody> {
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.version_mut() = parts.version;
    *request.headers_mut() = parts.headers.clone();
    let path = parts.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = if parts.version == Version::HTTP_2 {
        // HTTP/2 has the authority in the URI, and no Host.
        let host = request.headers_mut().remove(HOST);
        let host = host.as_ref().and_then(|host| host.to_str().ok());
        let authority = host.map_or_else(|| address.to_string(), str::to_owned);
        let uri = Uri::builder()
            .scheme("http")
            .authority(authority)
            .path_and_query(path.clone());
        uri.build().unwrap_or_else(|_| Uri::from(path))
    } else {
        Uri::from(path)
    };
    request
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

fn remove_of_one_connection(headers: &mut HeaderMap) {
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
        let request = request(
            &parts,
            "10.0.0.1:80".parse().unwrap(),
            RequestBody::default(),
        );
        assert_eq!(request.uri().authority().unwrap(), "embed.search");
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
