//! The committed seeds of the target `ext_proc`, and messages that take much memory for their length.

use prost::Message as _;
use tetris_gateway::picker::wire::Kind;
use tetris_gateway::picker::wire::{
    HeaderMap, HeaderValue, HttpBody, HttpHeaders, HttpTrailers, ListValue, Metadata, Part,
    ProcessingRequest, ProtocolConfiguration, Struct, Value,
};

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let path = (":path", "/functions/embed/v2/models/m/infer");
    let head = |headers: &[(&str, &str)]| of(Part::RequestHeaders(headers_of(headers)));
    let whole = ProcessingRequest {
        metadata_context: Some(metadata()),
        protocol_config: Some(ProtocolConfiguration {
            request_body_mode: 4,
            response_body_mode: 1,
        }),
        ..message(Part::RequestHeaders(headers_of(&[
            path,
            (":method", "POST"),
            (":authority", "embed"),
            ("x-request-id", "7"),
        ])))
    };
    let whole = whole.encode_to_vec();
    vec![
        ("valid-whole", whole.clone()),
        ("valid-path", head(&[path])),
        ("valid-body", of(Part::RequestBody(body()))),
        (
            "valid-response",
            of(Part::ResponseHeaders(headers_of(&[(":status", "200")]))),
        ),
        ("valid-response-body", of(Part::ResponseBody(body()))),
        (
            "valid-trailers",
            of(Part::RequestTrailers(HttpTrailers::default())),
        ),
        (
            "valid-response-trailers",
            of(Part::ResponseTrailers(HttpTrailers::default())),
        ),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-cut", whole[..whole.len() - 3].to_vec()),
        ("hostile-no-path", head(&[("a", "b")])),
        ("hostile-path", head(&[(":path", "no path")])),
        ("hostile-fragment-alone", head(&[(":path", "#/v1/x")])),
        (
            "hostile-fragment",
            head(&[(":path", "/v1/x#/../repository")]),
        ),
        ("hostile-method", head(&[path, (":method", "A B")])),
        ("hostile-name", head(&[path, ("a b", "")])),
        (
            "hostile-long-name",
            head(&[path, (&"\u{7f}".repeat(9_000), "")]),
        ),
        ("hostile-smuggling", head(&[path, ("a", "1\r\nb: 2")])),
        (
            "hostile-hosts",
            head(&[path, (":authority", "a"), ("host", "b")]),
        ),
        (
            "hostile-status",
            of(Part::ResponseHeaders(headers_of(&[(":status", "x")]))),
        ),
        ("hostile-length", b"\x12\xff\xff\xff\xff\x0f".to_vec()),
        ("hostile-groups", [b"\x0b".repeat(200)].concat()),
        ("hostile-nested", nested(200)),
    ]
}

/// Messages of many short entries.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let head = |field: &[u8]| {
        framed(
            &[0x12],
            &framed(&[0x0a], &field.repeat(500_000 / field.len())),
        )
    };
    let lists = framed(
        &[0x0a],
        &[
            framed(&[0x0a], b"a"),
            framed(
                &[0x12],
                &framed(
                    &[0x0a],
                    &[
                        framed(&[0x0a], b"b"),
                        framed(&[0x12], &framed(&[0x32], &b"\x0a\x00".repeat(250_000))),
                    ]
                    .concat(),
                ),
            ),
        ]
        .concat(),
    );
    vec![
        ("empty headers", head(b"\x0a\x00")),
        ("headers", head(b"\x0a\x06\x0a\x01a\x1a\x01b")),
        ("lists", framed(&[0x42], &lists)),
        ("unknown", framed(&[0x7a], &[0; 500_000])),
    ]
}

/// Lists in lists, deeper than the decoder goes.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 0..depth {
        value = framed(&[0x32], &framed(&[0x0a], &value));
    }
    let entry = [
        framed(&[0x0a], b"a"),
        framed(
            &[0x12],
            &framed(
                &[0x0a],
                &[framed(&[0x0a], b"b"), framed(&[0x12], &value)].concat(),
            ),
        ),
    ];
    framed(&[0x42], &framed(&[0x0a], &entry.concat()))
}

/// A field of bytes with its length.
fn framed(tag: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut field = tag.to_vec();
    let mut length = bytes.len();
    while length >= 0x80 {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(bytes);
    field
}

fn message(part: Part) -> ProcessingRequest {
    ProcessingRequest {
        request: Some(part),
        ..ProcessingRequest::default()
    }
}

fn of(part: Part) -> Vec<u8> {
    message(part).encode_to_vec()
}

fn body() -> HttpBody {
    HttpBody {
        body: b"{}".to_vec().into(),
        end_of_stream: true,
    }
}

fn headers_of(headers: &[(&str, &str)]) -> HttpHeaders {
    let headers = headers.iter().map(|&(key, value)| HeaderValue {
        key: key.to_owned(),
        value: String::new(),
        raw_value: value.as_bytes().to_vec().into(),
    });
    HttpHeaders {
        headers: Some(HeaderMap {
            headers: headers.collect(),
        }),
        end_of_stream: true,
    }
}

fn metadata() -> Metadata {
    let list = ListValue {
        values: vec![Value::text("10.0.0.1:8000"), Value { kind: None }],
    };
    let list = Value {
        kind: Some(Kind::List(list)),
    };
    let subset = Struct {
        fields: [("x-gateway-destination-endpoint-subset".to_owned(), list)].into(),
    };
    Metadata {
        filter_metadata: [("envoy.lb.subset_hint".to_owned(), subset)].into(),
    }
}
