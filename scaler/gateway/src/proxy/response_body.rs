//! Bodies of responses: passed on frame by frame. The request ends with its body.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tetris_service_kit::budget::Exceeded;
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::engines::Cut;
use crate::function::Grant;
use crate::metrics::{Dispatched, RequestOutcome};
use crate::pool::Lent;

/// The reason a response breaks off.
#[derive(Debug, Error)]
pub enum BrokenOff {
    /// The instance broke off.
    #[error("the instance broke off: {0}")]
    Instance(hyper::Error),
    /// The instance sent nothing for too long.
    #[error("the instance sent nothing for {0:?}")]
    Idle(Duration),
    /// The request stayed for too long.
    #[error("the response had not ended {0:?} after its request came (timeouts.request)")]
    Late(Duration),
    /// The engine had to sleep.
    #[error(
        "the engine had to make room for another one, and the time for its requests to end had passed (drain)"
    )]
    Cut,
    /// The client holds too much memory.
    #[error("{0}")]
    Memory(#[from] Exceeded),
}

/// Parts that end with a response.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) grant: Option<Grant>,
    pub(super) connection: Lent,
    pub(super) counted: Dispatched,
    /// True if the status was that of a broken instance.
    pub(super) failed: bool,
}

impl Ending {
    fn whole(self) {
        let Self {
            grant,
            connection,
            counted,
            failed,
        } = self;
        let Some(grant) = grant else { return };
        if let Some(connection) = connection {
            grant.endpoint().pool.give_back(connection);
        }
        counted.answered(failed, grant.answered(failed));
    }

    fn cut(self) {
        self.counted.ended(RequestOutcome::Cut);
    }

    fn broken(self) {
        self.counted.ended(RequestOutcome::Broken);
        if let Some(grant) = self.grant {
            grant.failed();
        }
    }
}

/// Limits on the time of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseLimits {
    /// Longest pause.
    pub(super) idle: Duration,
    /// Longest stay of the request.
    pub(super) stay: Duration,
    /// End of the longest stay.
    pub(super) until: Instant,
}

/// Body of a response.
#[derive(Debug)]
pub struct ResponseBody {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Own(Option<Bytes>),
    Instance(Box<OfInstance>),
}

#[derive(Debug)]
struct OfInstance {
    body: Incoming,
    /// Gone once the response has ended. Dropped before that, the client has left.
    ending: Option<Ending>,
    limits: ResponseLimits,
    cut: Cut,
    /// Runs while the instance pauses: most bodies come whole with their head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ResponseBody {
    /// A text of the gateway's own.
    pub(super) fn own(text: String) -> Self {
        let bytes = (!text.is_empty()).then(|| Bytes::from(text));
        Self {
            source: Source::Own(bytes),
        }
    }

    /// The body that an instance sends, within `limits`, until it is `cut`.
    pub(super) fn of_instance(
        body: Incoming,
        ending: Ending,
        limits: ResponseLimits,
        cut: Cut,
    ) -> Self {
        if body.is_end_stream() {
            ending.whole();
            return Self {
                source: Source::Own(None),
            };
        }
        let ending = Some(ending);
        Self {
            source: Source::Instance(Box::new(OfInstance {
                body,
                ending,
                limits,
                cut,
                timer: None,
            })),
        }
    }
}

impl OfInstance {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if self.ending.is_some() && self.cut.poll(cx).is_ready() {
            self.end(Ending::cut);
            return Poll::Ready(Some(Err(BrokenOff::Cut)));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            return self.poll_timer(cx);
        };
        // Also of an instance that always has a little.
        if !self.body.is_end_stream() && Instant::now() >= self.limits.until {
            return self.late();
        }
        let next = match frame {
            Some(Ok(frame)) => {
                self.timer = None;
                if self.body.is_end_stream() {
                    self.end(Ending::whole);
                }
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                self.end(Ending::broken);
                Some(Err(BrokenOff::Instance(error)))
            }
            None => {
                self.end(Ending::whole);
                None
            }
        };
        Poll::Ready(next)
    }

    fn poll_timer(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let ResponseLimits { idle, until, .. } = self.limits;
        let timer = self.timer.get_or_insert_with(|| {
            let end = Instant::now() + idle;
            Box::pin(sleep_until(end.min(until)))
        });
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if Instant::now() >= until {
            return self.late();
        }
        self.end(Ending::broken);
        Poll::Ready(Some(Err(BrokenOff::Idle(idle))))
    }

    fn late(&mut self) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.end(Ending::broken);
        Poll::Ready(Some(Err(BrokenOff::Late(self.limits.stay))))
    }

    fn end(&mut self, how: impl FnOnce(Ending)) {
        if let Some(ending) = self.ending.take() {
            how(ending);
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match &mut self.source {
            Source::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Instance(instance) => instance.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Own(bytes) => bytes.is_none(),
            Source::Instance(instance) => instance.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::Instance(instance) => instance.body.size_hint(),
        }
    }
}
