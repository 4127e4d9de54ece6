//! Bodies of responses: passed on frame by frame. The request ends with its body.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use thiserror::Error;
use tokio::time::{Sleep, sleep};

use crate::function::Grant;
use crate::metrics::Dispatched;
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
        counted.ended(if failed { "fault" } else { "served" });
        if failed {
            grant.failed();
        } else {
            grant.served();
        }
    }

    fn broken(self) {
        self.counted.ended("broken");
        if let Some(grant) = self.grant {
            grant.failed();
        }
    }
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
    idle: Duration,
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

    /// The body that an instance sends, with pauses of `idle` at most.
    pub(super) fn of_instance(body: Incoming, ending: Ending, idle: Duration) -> Self {
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
                idle,
                timer: None,
            })),
        }
    }
}

impl OfInstance {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let idle = self.idle;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(idle)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.end(Ending::broken);
            return Poll::Ready(Some(Err(BrokenOff::Idle(self.idle))));
        };
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
