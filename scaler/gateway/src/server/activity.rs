//! Requests in progress on one connection, as it is seen from outside of hyper.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::proxy::{BrokenOff, ResponseBody};

/// Requests of a connection, and its output. One task uses it, so that no order between the fields
/// has to be kept.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: AtomicU64,
    /// Requests whose response has ended.
    ended: AtomicU64,
    /// True if bytes of a response may not have been written yet.
    unwritten: AtomicBool,
}

impl Activity {
    /// Counts a request, until its response has ended.
    pub(super) fn begin(self: &Arc<Self>) -> InProgress {
        self.begun.fetch_add(1, Ordering::Relaxed);
        InProgress(Arc::clone(self))
    }

    /// Sets that bytes of a response may not have been written yet.
    pub(super) fn set_unwritten(&self, unwritten: bool) {
        self.unwritten.store(unwritten, Ordering::Relaxed);
    }

    /// Number of requests that have ended, if none is in progress and all responses are written.
    pub(super) fn idle_after(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Relaxed);
        let is_idle =
            ended == self.begun.load(Ordering::Relaxed) && !self.unwritten.load(Ordering::Relaxed);
        is_idle.then_some(ended)
    }
}

/// A request in progress.
#[derive(Debug)]
pub(super) struct InProgress(Arc<Activity>);

impl InProgress {
    /// Ties the end of the request to that of its response's body.
    pub(super) const fn until_end_of(self, body: ResponseBody) -> CountedBody {
        CountedBody {
            body,
            _until_dropped: self,
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Body of a response whose request is in progress as long as it exists.
#[derive(Debug)]
pub(super) struct CountedBody {
    body: ResponseBody,
    _until_dropped: InProgress,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
