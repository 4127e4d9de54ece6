//! Removal of the stores of namespaces that are gone.
//!
//! A store is removed when all of these hold: the watch's complete list of namespaces does not have
//! its identifier; the API server, asked for the namespace by name, has none or one with another
//! identifier; no volume of the store is mounted; none of its objects is mapped. So neither a watch
//! that lags nor an API server that is away removes anything. A directory of an earlier version,
//! which has no identifier in its name, is given to no pod; the last two conditions hold for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::choose::OwnStore;
use super::config::PerNamespace;
use super::namespaces::Namespaces;
use super::stores::{Removal, Stores};

/// Time between attempts while nothing happens. Processes release a store's objects without a
/// signal.
const EVERY: Duration = Duration::from_mins(1);

/// Removes such stores whenever a namespace goes or a volume is unpublished.
pub(super) async fn follow(
    rule: PerNamespace,
    stores: Arc<Stores>,
    namespaces: Arc<dyn Namespaces>,
    unpublished: Arc<Notify>,
) {
    let mut living = namespaces.living();
    loop {
        sweep(&rule, &stores, &*namespaces).await;
        tokio::select! {
            Ok(()) = living.changed() => {}
            () = unpublished.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn sweep(rule: &PerNamespace, stores: &Arc<Stores>, namespaces: &dyn Namespaces) {
    let living = namespaces.living().borrow().clone();
    let existing = blocking(stores, {
        let rule = rule.clone();
        move |stores| stores.existing(&rule)
    });
    for store in existing.await.unwrap_or_default() {
        let gone = match (&store.uid, &living) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(uid), Some(living)) if living.contains(uid) => false,
            (Some(uid), Some(_)) => is_gone(&store, uid, namespaces).await,
        };
        if gone {
            let _tried: Removal = stores.remove(&store).await;
        }
    }
}

async fn is_gone(store: &OwnStore, uid: &str, namespaces: &dyn Namespaces) -> bool {
    match namespaces.is_gone(&store.namespace, uid).await {
        Ok(gone) => gone,
        Err(error) => {
            tracing::debug!(store = store.config.name, %error, "whether its namespace is gone is not known");
            false
        }
    }
}

/// Does it where blocking is allowed; none if it panicked.
async fn blocking<T: Send + 'static>(
    stores: &Arc<Stores>,
    work: impl FnOnce(&Stores) -> T + Send + 'static,
) -> Option<T> {
    let stores = Arc::clone(stores);
    tokio::task::spawn_blocking(move || work(&stores))
        .await
        .ok()
}
