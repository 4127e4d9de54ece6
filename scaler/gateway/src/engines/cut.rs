//! The end of a request whose engine must sleep.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// Waits until a running request must end. Dropped senders let it go on.
#[derive(Debug)]
pub(crate) struct Cut(Option<Box<oneshot::Receiver<()>>>);

impl Cut {
    /// A request without such an end.
    pub(crate) const fn never() -> Self {
        Self(None)
    }

    pub(super) fn by(receiver: oneshot::Receiver<()>) -> Self {
        Self(Some(receiver.into()))
    }

    /// Ready once the request must end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(receiver) = &mut self.0 else {
            return Poll::Pending;
        };
        match Pin::new(receiver.as_mut()).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(_)) => {
                self.0 = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Waits until the request must end.
    pub(crate) async fn wait(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}
