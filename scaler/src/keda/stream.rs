//! Answers that go on.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tonic::Status;

use crate::state::Snapshot;

use super::target::{NoTarget, Target, replicas, spec};
use super::wire::{GetMetricSpecResponse, IsActiveResponse};

/// Responses, one after the other.
pub type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What is published, and whether the server ends.
pub(super) struct Feed {
    pub(super) published: watch::Receiver<Arc<Snapshot>>,
    pub(super) stopping: watch::Receiver<bool>,
    /// One of the streams that there may be.
    pub(super) permit: OwnedSemaphorePermit,
}

impl Feed {
    /// Until the server ends.
    async fn stopped(&mut self) {
        // An error says that the server is gone.
        drop(self.stopping.wait_for(|stop| *stop).await);
    }
}

/// Whether the configuration is to have instances: at once, and whenever that changes. Nothing while there is no
/// decision, and an error at the end if what is asked for is not there. The server's end is the stream's.
pub(super) fn activity(target: Target, feed: Feed) -> Responses<IsActiveResponse> {
    let watching = Watching {
        target,
        feed,
        last: None,
        ended: false,
    };
    Box::pin(stream::unfold(watching, |mut watching| async move {
        let item = watching.next().await?;
        Some((item, watching))
    }))
}

struct Watching {
    target: Target,
    feed: Feed,
    last: Option<bool>,
    ended: bool,
}

impl Watching {
    async fn next(&mut self) -> Option<Result<IsActiveResponse, Status>> {
        while !self.ended {
            match self.now() {
                Ok(active) if self.last != Some(active) => {
                    self.last = Some(active);
                    return Some(Ok(IsActiveResponse { result: active }));
                }
                Err(why) if !why.is_for_now() => {
                    self.ended = true;
                    return Some(Err(why.into()));
                }
                Ok(_) | Err(_) => self.ended = !self.changed().await,
            }
        }
        None
    }

    fn now(&mut self) -> Result<bool, NoTarget> {
        let published = self.feed.published.borrow_and_update().clone();
        Ok(replicas(&published, &self.target)? > 0)
    }

    /// Waits for the next publication; false if there is none any more.
    async fn changed(&mut self) -> bool {
        let Feed {
            published,
            stopping,
            permit: _,
        } = &mut self.feed;
        tokio::select! {
            changed = published.changed() => changed.is_ok(),
            _ = stopping.wait_for(|stop| *stop) => false,
        }
    }
}

/// The metric, which never changes: KEDA opens the stream anew when it ends, so it is kept open.
pub(super) fn metric(mut feed: Feed) -> Responses<GetMetricSpecResponse> {
    let rest = async move {
        feed.stopped().await;
        drop(feed.permit);
    };
    let end = stream::once(rest).filter_map(|()| std::future::ready(None));
    Box::pin(stream::once(std::future::ready(Ok(spec()))).chain(end))
}
