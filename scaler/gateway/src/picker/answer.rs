//! Answers of the picker.

use std::collections::HashMap;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use hyper::http::uri::PathAndQuery;

use super::metadata::{DESTINATION, LOAD_BALANCING};
use super::wire::{
    Answer, AppendAction, BodyMutation, BodyResponse, CommonResponse, GrpcStatus, HeaderMutation,
    HeaderValue, HeaderValueOption, HeadersResponse, HttpBody, HttpStatus, ImmediateResponse, Kind,
    ProcessingResponse, Struct, TrailersResponse, Value,
};
use crate::problem::Problem;
use crate::proxy::WAIT;
use crate::proxy::answer::{Dialect, grpc_status};

/// The instance of a request, and the changes of its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pick {
    pub(super) address: std::net::SocketAddr,
    /// The path that the instance gets, if that is another one.
    pub(super) path: Option<PathAndQuery>,
    /// True if the head has a token for the gateway, which no instance may get.
    pub(super) hides_token: bool,
}

impl Pick {
    /// Changes of the request's head. A client's own headers of these names are overwritten.
    pub(super) fn changes(&self) -> CommonResponse {
        let mut set_headers = vec![set(DESTINATION, self.address.to_string())];
        if let Some(path) = &self.path {
            set_headers.push(set(":path", path.as_str().to_owned()));
        }
        let mut remove_headers = vec![WAIT.as_str().to_owned()];
        if self.hides_token {
            remove_headers.push(AUTHORIZATION.as_str().to_owned());
        }
        CommonResponse {
            header_mutation: Some(HeaderMutation {
                set_headers,
                remove_headers,
            }),
            body_mutation: None,
            // Routes match the client's path. They would not match that of the instance.
            clear_route_cache: self.path.is_none(),
        }
    }

    /// The same instance for load balancing.
    pub(super) fn metadata(&self) -> Struct {
        let picked = Value::text(self.address.to_string());
        let fields = HashMap::from([(DESTINATION.to_owned(), picked)]);
        let inner = Value {
            kind: Some(Kind::Object(Struct { fields })),
        };
        Struct {
            fields: HashMap::from([(LOAD_BALANCING.to_owned(), inner)]),
        }
    }
}

/// Lets a head pass, with the changes of a pick.
pub(super) fn request_headers(pick: Option<&Pick>) -> ProcessingResponse {
    let changes = pick.map(Pick::changes).unwrap_or_default();
    picked(Answer::RequestHeaders(headers(changes)), pick)
}

/// Lets a whole body pass, with the changes of a pick for its head.
pub(super) fn request_body(pick: &Pick) -> ProcessingResponse {
    let changes = Some(pick.changes());
    picked(
        Answer::RequestBody(BodyResponse { response: changes }),
        Some(pick),
    )
}

/// Lets the trailers of a request without a body pass. Its head cannot be changed any more: the
/// metadata alone names the instance.
pub(super) fn request_trailers(pick: &Pick) -> ProcessingResponse {
    picked(Answer::RequestTrailers(TrailersResponse {}), Some(pick))
}

fn picked(answer: Answer, pick: Option<&Pick>) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(answer),
        dynamic_metadata: pick.map(Pick::metadata),
    }
}

/// An answer without metadata.
pub(super) fn plain(answer: Answer) -> ProcessingResponse {
    picked(answer, None)
}

/// Answer to a head.
pub(super) fn headers(changes: CommonResponse) -> HeadersResponse {
    HeadersResponse {
        response: Some(changes),
    }
}

/// Lets a part of a body pass. The data plane waits for its bytes where it `streams`.
pub(super) fn body(part: HttpBody, streams: bool) -> BodyResponse {
    let changes = CommonResponse {
        body_mutation: streams.then_some(BodyMutation {
            streamed_response: Some(part),
        }),
        ..CommonResponse::default()
    };
    BodyResponse {
        response: Some(changes),
    }
}

/// A response for the client, in the form that its protocol has for errors.
pub(super) fn immediate(dialect: Dialect, problem: &Problem) -> ProcessingResponse {
    let document = dialect.document(problem);
    let mut set_headers = Vec::new();
    if document.is_some() {
        set_headers.push(set("content-type", "application/json".to_owned()));
    }
    if problem.status == StatusCode::UNAUTHORIZED {
        set_headers.push(set("www-authenticate", "Bearer".to_owned()));
    }
    if let Some(seconds) = problem.retry_seconds() {
        set_headers.push(set("retry-after", seconds.to_string()));
    }
    // For gRPC the data plane makes a message of the body.
    let grpc_status = match document {
        Some(_) => None,
        None => grpc_status(problem.status).parse().ok(),
    };
    let body = document.map_or_else(|| problem.message.clone(), |document| document.to_string());
    let response = ImmediateResponse {
        status: Some(HttpStatus {
            code: problem.status.as_u16().into(),
        }),
        headers: Some(HeaderMutation {
            set_headers,
            remove_headers: Vec::new(),
        }),
        body: Bytes::from(body),
        grpc_status: grpc_status.map(|status| GrpcStatus { status }),
        details: format!("tetris-{}", problem.reason),
    };
    plain(Answer::Immediate(response))
}

fn set(key: &str, value: String) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: key.to_owned(),
            value: String::new(),
            raw_value: Bytes::from(value),
        }),
        append_action: AppendAction::OverwriteIfExistsOrAdd.into(),
    }
}
