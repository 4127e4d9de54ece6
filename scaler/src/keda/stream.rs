//! Streams of the external scaler.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use tetris_service_kit::clients::Place;
use tokio::sync::watch;
use tonic::Status;

use crate::state::Snapshot;

use super::target::{NoTarget, Target, replicas, spec};
use super::wire::{GetMetricSpecResponse, IsActiveResponse};

/// A stream of responses.
pub type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Published snapshots, and the stop signal of the server.
pub(super) struct Feed {
    pub(super) published: watch::Receiver<Arc<Snapshot>>,
    pub(super) stopping: watch::Receiver<bool>,
    /// Place of this stream among all.
    pub(super) place: Place,
}

impl Feed {
    /// Waits until the server stops.
    async fn stopped(&mut self) {
        // An error means that the server is gone.
        drop(self.stopping.wait_for(|stop| *stop).await);
    }
}

/// Streams the activity of a configuration: once at the start, and at each change. Sends nothing
/// before the first decision, and ends with an error if the target does not exist. The stream ends
/// with the server.
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

    /// Waits for the next publication; returns false if there will be none.
    async fn changed(&mut self) -> bool {
        let Feed {
            published,
            stopping,
            place: _,
        } = &mut self.feed;
        tokio::select! {
            changed = published.changed() => changed.is_ok(),
            _ = stopping.wait_for(|stop| *stop) => false,
        }
    }
}

/// Streams the metric, which never changes. The stream stays open, as KEDA would open it again.
pub(super) fn metric(mut feed: Feed) -> Responses<GetMetricSpecResponse> {
    let rest = async move {
        feed.stopped().await;
        drop(feed.place);
    };
    let end = stream::once(rest).filter_map(|()| std::future::ready(None));
    Box::pin(stream::once(std::future::ready(Ok(spec()))).chain(end))
}
