//! Conditions on any bytes taken for a call of KEDA. Shared by the fuzz target and the
//! tests of the scaler.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::Request;
use http_body_util::BodyExt as _;
use tetris_scaler::keda::{ExternalScalerServer, KedaLimits, Scaler, service};
use tetris_scaler::state::Snapshot;
use tetris_test_support::scaler_snapshot;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tower::ServiceExt as _;

const CALLS: [&str; 5] = [
    "IsActive",
    "StreamIsActive",
    "GetMetricSpec",
    "GetMetrics",
    "StreamMetricSpec",
];
/// Longest message of an error in a header, in bytes: 512 characters, each of at most 4 bytes, which
/// take 3 each.
const MAX_MESSAGE_BYTES: usize = 512 * 4 * 3;

/// An external scaler that stops: its streams send what they have, and end.
pub struct Site {
    runtime: Runtime,
    service: ExternalScalerServer<Scaler>,
    _published: watch::Sender<Arc<Snapshot>>,
    _stopping: watch::Sender<bool>,
}

impl Default for Site {
    fn default() -> Self {
        let mut snapshot = scaler_snapshot::snapshot(&[("bert", "External"), ("own", "Operator")]);
        scaler_snapshot::decide(&mut snapshot, "bert", 1, 2);
        let (published, snapshots) = watch::channel(Arc::new(snapshot));
        let (stopping, stopped) = watch::channel(true);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            runtime,
            service: service(snapshots, KedaLimits::default(), stopped),
            _published: published,
            _stopping: stopping,
        }
    }
}

impl Site {
    /// Calls the scaler. The first byte of `input` selects the call, the others are the request's
    /// body. Returns the status of gRPC, 0 for success.
    ///
    /// # Panics
    ///
    /// If the answer is none of gRPC, or its message does not fit a header.
    pub fn check(&self, input: &[u8]) -> u16 {
        let (call, body) = input.split_first().unwrap_or((&0, &[]));
        let call = CALLS[usize::from(*call) % CALLS.len()];
        let request = Request::post(format!("/externalscaler.ExternalScaler/{call}"))
            .header("content-type", "application/grpc")
            .body(Body::from(Bytes::copy_from_slice(body)))
            .unwrap();
        let (head, body) = self.runtime.block_on(async {
            let answer = self.service.clone().oneshot(request).await.unwrap();
            let (head, body) = answer.into_parts();
            (head, body.collect().await.expect("an answer that ends"))
        });
        assert_eq!(head.status.as_u16(), 200);
        let trailers = body.trailers().cloned().unwrap_or_default();
        let field = |name| head.headers.get(name).or_else(|| trailers.get(name));
        let message = field("grpc-message").map_or(0, |message| message.as_bytes().len());
        assert!(message <= MAX_MESSAGE_BYTES, "{message} bytes");
        let status = field("grpc-status").expect("a status of gRPC");
        let status = status.to_str().unwrap().parse().unwrap();
        let messages = body.to_bytes();
        assert_eq!(status == 0, !messages.is_empty(), "{messages:?}");
        status
    }
}

/// `input` as a call with one message: the bytes after the first, with the header of gRPC.
pub fn framed(input: &[u8]) -> Vec<u8> {
    let Some((call, message)) = input.split_first() else {
        return Vec::new();
    };
    // As gRPC has it: the highest byte first.
    let [a, b, c, d] = (message.len() as u32).to_le_bytes();
    [&[*call, 0, d, c, b, a], message].concat()
}
