//! The committed seeds of the target `keda`.

use crate::keda::framed;

/// Calls by their number.
const IS_ACTIVE: u8 = 0;
const STREAM_IS_ACTIVE: u8 = 1;
const GET_METRIC_SPEC: u8 = 2;
const GET_METRICS: u8 = 3;
const STREAM_METRIC_SPEC: u8 = 4;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let bert = || reference("serving", "bert", "c4000-b4-p2");
    let metrics = |name: &str| [text(1, &bert()), text(2, name.as_bytes())].concat();
    let of = |call: u8, message: &[u8]| framed(&[&[call], message].concat());
    let compressed = [&[IS_ACTIVE, 1, 0, 0, 0, 3], b"abc".as_slice()].concat();
    let long = vec![b'x'; 60_000];
    let unnamed = reference("serving", &String::from_utf8_lossy(&long), "c");
    vec![
        ("valid-is-active", of(IS_ACTIVE, &bert())),
        ("valid-stream-is-active", of(STREAM_IS_ACTIVE, &bert())),
        ("valid-get-metric-spec", of(GET_METRIC_SPEC, &bert())),
        (
            "valid-get-metrics",
            of(GET_METRICS, &metrics("tetris-replicas")),
        ),
        ("valid-stream-metric-spec", of(STREAM_METRIC_SPEC, &bert())),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-no-message", vec![IS_ACTIVE]),
        ("hostile-cut", of(IS_ACTIVE, &bert())[..9].to_vec()),
        ("hostile-compressed", compressed),
        (
            "hostile-too-long",
            [IS_ACTIVE, 0, 0xff, 0xff, 0xff, 0xff].to_vec(),
        ),
        ("hostile-no-protobuf", of(IS_ACTIVE, &[0xff; 20])),
        ("hostile-no-metadata", of(IS_ACTIVE, &text(2, b"serving"))),
        (
            "hostile-unknown-function",
            of(IS_ACTIVE, &reference("serving", "x", "y")),
        ),
        ("hostile-long-function", of(STREAM_IS_ACTIVE, &unnamed)),
        (
            "hostile-unknown-configuration",
            of(IS_ACTIVE, &reference("serving", "bert", "\u{e9}")),
        ),
        (
            "hostile-not-external",
            of(IS_ACTIVE, &reference("serving", "own", "c1000-b1-p1")),
        ),
        ("hostile-unknown-metric", of(GET_METRICS, &metrics("other"))),
        (
            "hostile-no-reference",
            of(GET_METRICS, &text(2, b"tetris-replicas")),
        ),
    ]
}

/// A field of bytes, as protocol buffers have it.
fn text(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(value);
    field
}

/// A ScaledObjectRef with the trigger's metadata.
fn reference(namespace: &str, function: &str, configuration: &str) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        text(
            3,
            &[text(1, key.as_bytes()), text(2, value.as_bytes())].concat(),
        )
    };
    let metadata = [
        entry("function", function),
        entry("configuration", configuration),
    ];
    let names = [text(1, b"scaled-object"), text(2, namespace.as_bytes())];
    [names.concat(), metadata.concat()].concat()
}
