//! Models that pods of this node declare warm, by a watch of the API server.
//!
//! Flow: list the pods bound to the node, then watch them; read the annotation of pods that run or
//! are about to; update the set when it changes.
//!
//! Guarantees:
//! - An error never takes a pod out of the set. Only three events do: the API server reports that
//!   the pod is gone or has ended, its annotation changes, or a *complete* list lacks it.
//! - [`Freshness`](crate::keep_warm::Freshness) is `Current` only between a complete list and the
//!   next error.
//! - Nothing here waits for readers of the set, and readers wait only for the moment of a change.
//!
//! Assumptions: the API server's answers about this node's pods are true. A pod that it names on
//! another node is ignored.
//!
//! Caveats: a connection that dies in silence is noticed after [`WATCH_SECONDS`] and a bit. New
//! pods in between are not known to be warm; only their mappings protect their models.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use kube::runtime::watcher::{self, Config, DefaultBackoff};
use kube::{Api, Client};
use tokio::sync::watch::Sender;

use crate::keep_warm::WarmSet;

mod annotation;
mod cache;
mod client;
mod failure;
mod namespaces;
mod options;
mod pod;

pub use annotation::{DEFAULT_ANNOTATION, DeclaredModels, ItemError, MAX_MODELS, parse_annotation};
pub use client::{ClientError, client};
pub use namespaces::{KnownNamespaces, watch_namespaces};
pub use options::{OptionsError, WatchOptions};

use cache::DeclarationCache;
use pod::BoundPod;

/// Length of one watch request in seconds. The server then ends it, and the next continues it. It
/// bounds the time for which a dead connection goes unnoticed, and costs each node one request per
/// period.
pub const WATCH_SECONDS: u32 = 120;

/// Pods per page of a list: a node has 110 by default.
pub const PAGE_PODS: u32 = 128;

/// The longest wait between attempts, if kube's backoff should end: it does not.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A fault, for counting. It was logged already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The API server could not be listed or watched.
    Watch,
    /// This many items of one pod's annotation were left out.
    Declarations(u64),
}

/// Keeps the set in `warm` true until `stop` is done. Returns then; errors do not end it.
///
/// The set that the channel holds at the start stays in force until the first complete list: make
/// the channel with [`WarmSet::before_first_sync`]. `faults` is called for each fault and must not
/// block.
pub async fn watch(
    client: Client,
    options: WatchOptions,
    warm: Sender<WarmSet>,
    faults: impl Fn(Fault),
    stop: impl Future<Output = ()>,
) {
    let pods = Api::all_with(client, &pod::resource());
    let mut cache = DeclarationCache::new(options, warm, faults);
    // Stopping anywhere is safe: the set is only ever changed in one go.
    tokio::select! {
        () = stop => {}
        () = follow(&pods, &mut cache) => {}
    }
}

/// Starts over with a list after any error. Kube could resume a broken watch, but does not tell
/// when it has; and after a message that it could not read, or an answer of 410 to the watch, only
/// a list is right again.
async fn follow(pods: &Api<BoundPod>, cache: &mut DeclarationCache<impl Fn(Fault)>) {
    let mut backoff = DefaultBackoff::default();
    loop {
        let ended = session(pods, cache).await;
        let mut delay = backoff.next().unwrap_or(BACKOFF_MAX);
        if let Err(error) = ended {
            cache.broke(&error);
            delay = delay.max(failure::retry_after(&error).unwrap_or_default());
        }
        tokio::time::sleep(delay).await;
    }
}

/// Lists, then watches, until something fails.
async fn session(
    pods: &Api<BoundPod>,
    cache: &mut DeclarationCache<impl Fn(Fault)>,
) -> Result<(), watcher::Error> {
    let config = Config::default()
        .fields(&cache.options().field_selector())
        .page_size(PAGE_PODS)
        .timeout(WATCH_SECONDS);
    let mut events = pin!(kube::runtime::watcher(pods.clone(), config));
    while let Some(event) = events.try_next().await? {
        cache.observe(event);
    }
    Ok(())
}
