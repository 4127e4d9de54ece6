//! Requests in progress on one connection, and bodies of their responses, as seen from outside of hyper.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tetris_service_kit::budget::Exceeded;

use super::ledger::{Ledger, Output};
use super::streams::StreamProgress;

/// Number of heads with too many fields after which a connection ends.
const WRONG: u64 = 16;

/// Requests of a connection, and its output. One task uses it, so that no order between the fields
/// has to be kept.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    /// Requests whose response has ended.
    ended: AtomicU64,
    /// Requests whose heads have more fields than they may.
    wrong: AtomicU64,
    /// True if bytes of a response may not have been written yet.
    unwritten: AtomicBool,
}

impl Activity {
    /// Counts a request, until its response has ended.
    pub(crate) fn begin(self: &Arc<Self>) -> InProgress {
        self.begun.fetch_add(1, Ordering::Relaxed);
        InProgress(Arc::clone(self))
    }

    /// Counts a head with more fields than it may have.
    pub(crate) fn is_wrong(&self) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the client has sent many such heads: each costs time to decode.
    pub(crate) fn is_hostile(&self) -> bool {
        self.wrong.load(Ordering::Relaxed) >= WRONG
    }

    /// Sets that bytes of a response may not have been written yet.
    pub(crate) fn set_unwritten(&self, unwritten: bool) {
        self.unwritten.store(unwritten, Ordering::Relaxed);
    }

    /// Number of requests that have ended, if none is in progress and all responses are written.
    pub(crate) fn idle_after(&self) -> Option<u64> {
        let ended = self.ended_without_open()?;
        (!self.unwritten.load(Ordering::Relaxed)).then_some(ended)
    }

    /// Number of requests that have ended, if none is in progress.
    pub(crate) fn ended_without_open(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Relaxed);
        (ended == self.begun.load(Ordering::Relaxed)).then_some(ended)
    }
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Activity>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Body of a response whose request is in progress as long as it exists. Its parts are charged to the client until
/// they are written.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    pub(crate) body: B,
    pub(crate) ledger: Arc<Ledger>,
    /// Progress of a stream by HTTP/2. With HTTP/1 it is that of the connection.
    pub(crate) progress: Option<Arc<StreamProgress>>,
    pub(crate) _until_dropped: InProgress,
}

impl<B> CountedBody<B> {
    fn charged(&self, frame: Frame<Bytes>) -> Result<Frame<Output>, Exceeded> {
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return Ok(Frame::trailers(trailers));
            }
        };
        if let Some(progress) = &self.progress {
            progress.gives(bytes.len());
        }
        Ok(Frame::data(self.ledger.output(bytes)?))
    }
}

impl<B> Body for CountedBody<B>
where
    B: Body<Data = Bytes, Error: From<Exceeded>> + Unpin,
{
    type Data = Output;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Output>, B::Error>>> {
        if let Some(progress) = &self.progress {
            progress.asked();
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| Ok(self.charged(frame?)?)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
