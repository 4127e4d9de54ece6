//! Watch of one kind of object.

use std::fmt::Debug;

use futures::StreamExt as _;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tetris_scaler::operator::cache::Cache;
use tokio::sync::Notify;

/// Keeps `cache` up to date, for ever. The watch goes on by itself after an error, later each time.
pub(super) async fn follow<K, V>(
    kind: &str,
    api: Api<K>,
    config: Config,
    cache: &Cache<V>,
    read: impl Fn(K) -> Option<V>,
    changed: &Notify,
) where
    K: Resource + ResourceExt + Clone + Debug + DeserializeOwned + Send + 'static,
    V: PartialEq,
{
    let mut events = Box::pin(watcher(api, config).default_backoff());
    let mut fails = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                fails = false;
                if cache.take_in(event, &read) {
                    changed.notify_one();
                }
            }
            // News once, until it answers again.
            Err(error) if fails => tracing::debug!("watch of {kind}: {error}"),
            Err(error) => {
                fails = true;
                tracing::warn!("watch of {kind}: {error}; what was known last stays in force");
            }
        }
    }
}
