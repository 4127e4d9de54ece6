//! Answers of the gateway's own, in the form that the client's protocol has for errors.

use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::json;

use super::{ResponseBody, is_grpc};
use crate::function_name::FunctionName;
use crate::problem::Problem;
use crate::refusal::Refusal;

/// ASCII bytes of a message that gRPC has encoded.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Returns the problem of a request that got no instance.
pub(crate) fn refused(function: &FunctionName, refusal: &Refusal) -> Problem {
    let status = if refusal.is_too_many() {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Problem {
        status,
        reason: refusal.reason(),
        message: format!("function {function}: {refusal}"),
        retry_after: Some(refusal.retry_after()),
    }
}

/// Protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Open Inference Protocol v2 over HTTP, and everything else.
    OpenInference,
    /// Paths as OpenAI's service has them.
    OpenAi,
    /// gRPC, whose errors have the status 200.
    Grpc,
}

impl Dialect {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        if is_grpc(request.headers(), request.version()) {
            return Self::Grpc;
        }
        let path = request.uri().path();
        if path.starts_with("/v1/") || (path.starts_with("/functions/") && path.contains("/v1/")) {
            return Self::OpenAi;
        }
        Self::OpenInference
    }

    pub(crate) fn answer(self, problem: &Problem) -> Response<ResponseBody> {
        let mut response = match self.document(problem) {
            None => grpc(problem),
            Some(document) => json_response(problem.status, &document),
        };
        if problem.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        }
        if let Some(value) = problem.retry_seconds() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(value));
        }
        response
    }

    /// The document that describes a problem; gRPC has none.
    pub(crate) fn document(self, problem: &Problem) -> Option<serde_json::Value> {
        match self {
            Self::Grpc => None,
            Self::OpenAi => Some(json!({"error": {
                "message": problem.message,
                "type": kind(problem.status),
                "param": null,
                "code": problem.reason,
            }})),
            Self::OpenInference => Some(json!({"error": problem.message})),
        }
    }
}

pub(super) fn json_response(
    status: StatusCode,
    document: &serde_json::Value,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::own(document.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Types of errors as OpenAI's service names them.
fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "server_error",
    }
}

/// A response of trailers only.
fn grpc(problem: &Problem) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::own(String::new()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(
        "grpc-status",
        HeaderValue::from_static(grpc_status(problem.status)),
    );
    if let Ok(message) =
        HeaderValue::try_from(utf8_percent_encode(&problem.message, ENCODED).to_string())
    {
        headers.insert("grpc-message", message);
    }
    response
}

/// Status codes of gRPC for those of HTTP.
pub(crate) fn grpc_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "3",
        StatusCode::NOT_FOUND => "5",
        StatusCode::FORBIDDEN => "7",
        StatusCode::UNAUTHORIZED => "16",
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => "8",
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "4",
        _ => "14",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(path: &str, kind: &str, version: hyper::Version) -> Request<()> {
        let request = Request::builder()
            .uri(path)
            .header(CONTENT_TYPE, kind)
            .version(version);
        request.body(()).unwrap()
    }

    #[test]
    fn errors_have_the_form_of_the_clients_protocol() {
        let problem = Problem::unavailable(
            "full",
            "50 % of\nit".to_owned(),
            Duration::from_millis(1_200),
        );
        let of = |path, kind, version| Dialect::of(&request(path, kind, version)).answer(&problem);
        let json = of(
            "/v2/models/m/infer",
            "application/json",
            hyper::Version::HTTP_11,
        );
        assert_eq!(
            (
                json.status().as_u16(),
                json.headers()[RETRY_AFTER].as_bytes()
            ),
            (503, &b"2"[..])
        );
        assert_eq!(json.headers()[CONTENT_TYPE], "application/json");
        let grpc = of(
            "/inference.GRPCInferenceService/ModelInfer",
            "application/grpc",
            hyper::Version::HTTP_2,
        );
        assert_eq!(
            (
                grpc.status().as_u16(),
                grpc.headers()["grpc-status"].as_bytes()
            ),
            (200, &b"14"[..])
        );
        assert_eq!(grpc.headers()["grpc-message"], "50 %25 of%0Ait");
    }

    #[test]
    fn protocols_are_told_apart_by_path_and_type() {
        let of = |path| Dialect::of(&request(path, "application/json", hyper::Version::HTTP_11));
        assert_eq!(of("/functions/chat/v1/completions"), Dialect::OpenAi);
        assert_eq!(of("/v1/models"), Dialect::OpenAi);
        assert_eq!(
            of("/functions/chat/v2/models/m/infer"),
            Dialect::OpenInference
        );
        let grpc_by_http1 = request("/x", "application/grpc", hyper::Version::HTTP_11);
        assert_eq!(Dialect::of(&grpc_by_http1), Dialect::OpenInference);
    }
}
