//! Memory of concurrent requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::{Body, HttpBody};
use http::{Request, StatusCode};
use hyper::body::{Bytes, Frame};
use tetris_webhook::http::{Limits, Shared, reviews};
use tetris_webhook::inject::Options;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::served::api::Api;
use crate::served::https::review;
use crate::served::replica::Replica;

/// A body of a size that is not announced, which comes when the test sends it.
struct Later(Option<oneshot::Receiver<String>>);

impl HttpBody for Later {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(body) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let body = ready!(Pin::new(body).poll(cx)).unwrap();
        self.0 = None;
        Poll::Ready(Some(Ok(Frame::data(body.into()))))
    }
}

fn router(limits: Limits) -> Router {
    let replica = Replica::new(&Api::new());
    let shared = Shared {
        options: Arc::new(Options::default()),
        metrics: replica.metrics,
        readiness: replica.readiness,
    };
    reviews(shared, limits)
}

fn post(router: &Router, body: Body) -> JoinHandle<StatusCode> {
    let request = Request::post("/mutate").body(body).unwrap();
    let answer = router.clone().oneshot(request);
    tokio::spawn(async { answer.await.unwrap().status() })
}

/// A good request of more than 64 KiB.
fn large() -> Body {
    Body::from(review() + &" ".repeat(100_000))
}

#[tokio::test]
async fn large_requests_wait_for_each_other_and_small_ones_do_not_wait() {
    let router = router(Limits {
        large_bodies: 1,
        ..Limits::default()
    });
    let (send, later) = oneshot::channel();
    let first = post(&router, Body::new(Later(Some(later))));
    let second = post(&router, large());
    for _ in 0..100 {
        assert_eq!(
            post(&router, review().into()).await.unwrap(),
            StatusCode::OK
        );
    }
    assert!(!first.is_finished() && !second.is_finished());
    send.send(review()).unwrap();
    assert_eq!(first.await.unwrap(), StatusCode::OK);
    assert_eq!(second.await.unwrap(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_arrive_holds_the_others_up_for_its_time_alone() {
    let router = router(Limits {
        large_bodies: 1,
        ..Limits::default()
    });
    let (_send, later) = oneshot::channel();
    let first = post(&router, Body::new(Later(Some(later))));
    assert_eq!(first.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(post(&router, large()).await.unwrap(), StatusCode::OK);
}
