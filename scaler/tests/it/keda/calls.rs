//! Tests of single calls.

use tetris_scaler::keda::KedaLimits;
use tonic::Code;

use crate::keda::bytes::{double, number, of, reference, text};
use crate::keda::client::Server;
use crate::keda::snapshots::{undecided, with};

const CONFIGURATION: &str = "c4000-b4-p2";

fn metrics_of(reference: &[u8], metric: &[u8]) -> Vec<u8> {
    [text(1, reference), text(2, metric)].concat()
}

#[tokio::test]
async fn the_value_is_what_was_decided_and_an_instance_takes_one() {
    let server = Server::start(with(7), KedaLimits::default()).await;
    let reference = of("bert", CONFIGURATION);

    let spec = server.call("GetMetricSpec", reference.clone()).await;
    let metric = [text(1, b"tetris-replicas"), number(2, 1), double(3, 1.0)].concat();
    assert_eq!(spec.unwrap(), text(1, &metric));

    let request = metrics_of(&reference, b"tetris-replicas");
    let value = server.call("GetMetrics", request).await;
    let seven = [text(1, b"tetris-replicas"), number(2, 7), double(3, 7.0)].concat();
    assert_eq!(value.unwrap(), text(1, &seven));

    let active = server.call("IsActive", reference).await;
    assert_eq!(active.unwrap(), number(1, 1));
}

#[tokio::test]
async fn zero_instances_are_inactive_and_not_an_error() {
    let server = Server::start(with(7), KedaLimits::default()).await;
    let reference = of("bert", "c1000-b1-p1");
    let active = server.call("IsActive", reference.clone()).await;
    // Protocol buffers omit false and zero.
    assert!(active.unwrap().is_empty());
    let request = metrics_of(&reference, b"tetris-replicas");
    let value = server.call("GetMetrics", request).await;
    assert_eq!(value.unwrap(), text(1, &text(1, b"tetris-replicas")));
}

#[tokio::test]
async fn what_is_not_known_is_an_error_and_never_zero() {
    let server = Server::start(with(7), KedaLimits::default()).await;
    let cases = [
        (of("other", CONFIGURATION), Code::NotFound, "serving/other"),
        (
            of("bert", "c9-b9-p9"),
            Code::NotFound,
            "c1000-b1-p1, c4000-b4-p2",
        ),
        (
            of("own", CONFIGURATION),
            Code::FailedPrecondition,
            "spec.scaling",
        ),
        (
            reference(
                "elsewhere",
                &[("function", "bert"), ("configuration", CONFIGURATION)],
            ),
            Code::NotFound,
            "elsewhere/bert",
        ),
        (
            reference("serving", &[("function", "bert")]),
            Code::InvalidArgument,
            "`configuration`",
        ),
        (
            reference(
                "serving",
                &[("function", ""), ("configuration", CONFIGURATION)],
            ),
            Code::InvalidArgument,
            "`function`",
        ),
        (Vec::new(), Code::InvalidArgument, "`function`"),
    ];
    for (reference, code, says) in cases {
        let metrics = metrics_of(&reference, b"tetris-replicas");
        for (method, request) in [("IsActive", reference.clone()), ("GetMetrics", metrics)] {
            let error = server.call(method, request).await.unwrap_err();
            assert_eq!(error.code(), code, "{method}: {error}");
            assert!(error.message().contains(says), "{method}: {error}");
        }
    }
}

#[tokio::test]
async fn before_the_first_decision_the_scaler_is_unavailable() {
    let server = Server::start(undecided(), KedaLimits::default()).await;
    let reference = of("bert", CONFIGURATION);
    let error = server.call("IsActive", reference.clone()).await;
    assert_eq!(error.unwrap_err().code(), Code::Unavailable);
    // The autoscaler is created with the metric even before the first decision.
    assert!(server.call("GetMetricSpec", reference).await.is_ok());
    server.publish(with(2));
    let active = server.call("IsActive", of("bert", CONFIGURATION)).await;
    assert_eq!(active.unwrap(), number(1, 1));
}

#[tokio::test]
async fn hostile_requests_are_refused() {
    let server = Server::start(with(7), KedaLimits::default()).await;
    let unknown = metrics_of(&of("bert", CONFIGURATION), b"cpu");
    let no_reference = text(2, b"tetris-replicas");
    for (request, code) in [
        (unknown, Code::InvalidArgument),
        (no_reference, Code::InvalidArgument),
        // A length beyond the message.
        (vec![10, 100, 1], Code::Internal),
        (vec![0; 1 << 20], Code::OutOfRange),
    ] {
        let error = server.call("GetMetrics", request).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    let active = server.call("IsActive", of("bert", CONFIGURATION)).await;
    assert_eq!(active.unwrap(), number(1, 1));
}
