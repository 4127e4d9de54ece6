//! The cluster's namespaces, as the process `cluster` reports them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tetris_service_kit::shutdown::until;
use tetris_service_kit::unix_http::UnixClient;
use tokio::sync::watch;

use crate::csi::{NamespaceError, Namespaces, PodName, PodPlace};
use crate::processes::messages::{
    Asked, LivingNamespaces, NamespaceGone, NamespaceQuestion, PlaceOfPod, PodQuestion,
};
use crate::uuid::is_uuid;

/// Longest wait for an answer about a pod, for which `cluster` asks the API server twice.
const ANSWER: Duration = Duration::from_secs(25);
/// Longest wait for the list of namespaces, which `cluster` has.
const LIST: Duration = Duration::from_secs(5);
/// Time between two looks at that list.
const EVERY: Duration = Duration::from_secs(2);

/// Failures in a row that are worth a warning: the processes start one after the other.
const FAILURES: u32 = 5;

const NEXT_STEP: &str =
    "see that the container `cluster` of this daemon runs, and what its log says";

/// The namespaces behind a socket.
#[derive(Debug)]
pub(super) struct ClusterNamespaces {
    cluster: UnixClient,
    living: watch::Receiver<Option<BTreeSet<String>>>,
}

impl ClusterNamespaces {
    /// The namespaces of the process at `socket`, whose list is looked at until `stopped`.
    pub(super) fn follow(socket: PathBuf, stopped: watch::Receiver<bool>) -> Self {
        let (sender, living) = watch::channel(None);
        let lists = UnixClient::new(socket.clone(), LIST);
        tokio::spawn(async move {
            tokio::select! {
                () = until(stopped) => {}
                () = look(&lists, &sender) => {}
            }
        });
        Self {
            cluster: UnixClient::new(socket, ANSWER),
            living,
        }
    }

    async fn ask<A: DeserializeOwned>(
        &self,
        path: &str,
        question: &(impl Serialize + Sync),
        what: impl FnOnce() -> String,
    ) -> Result<A, NamespaceError> {
        match self.cluster.call(Method::POST, path, question).await {
            Ok(asked) => Asked::answered(asked),
            Err(error) => Err(NamespaceError::Unknown {
                what: what(),
                problem: error.to_string(),
                next_step: NEXT_STEP.into(),
            }),
        }
    }
}

/// A list that cannot be had takes nothing out of the one that is known.
async fn look(lists: &UnixClient, living: &watch::Sender<Option<BTreeSet<String>>>) {
    let mut failures = 0_u32;
    loop {
        let list = lists.call(Method::GET, "/namespaces/living", &()).await;
        match list {
            Ok(LivingNamespaces { uids: None }) => failures = 0,
            Ok(LivingNamespaces { uids }) => {
                failures = 0;
                living.send_if_modified(|known| {
                    let differs = *known != uids;
                    *known = uids;
                    differs
                });
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                let next_step = NEXT_STEP;
                if failures == FAILURES {
                    tracing::warn!(%error, next_step, "namespaces cannot be listed: stores of those that go stay until they can");
                } else {
                    tracing::debug!(%error, failures, "namespaces cannot be listed");
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[tonic::async_trait]
impl Namespaces for ClusterNamespaces {
    async fn of_pod(&self, pod: &PodName) -> Result<PodPlace, NamespaceError> {
        let what = || format!("pod `{}/{}`", pod.namespace, pod.name);
        let question = PodQuestion::from(pod);
        let place: PlaceOfPod = self.ask("/pods/place", &question, what).await?;
        // It becomes part of a path.
        if !is_uuid(&place.namespace_uid) {
            return Err(NamespaceError::NotAUuid {
                namespace: pod.namespace.clone(),
                found: place.namespace_uid.chars().take(64).collect(),
            });
        }
        Ok(place.into())
    }

    async fn is_gone(&self, name: &str, uid: &str) -> Result<bool, NamespaceError> {
        let question = NamespaceQuestion {
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let what = || format!("namespace `{name}`");
        let gone: NamespaceGone = self.ask("/namespaces/gone", &question, what).await?;
        Ok(gone.gone)
    }

    fn living(&self) -> watch::Receiver<Option<BTreeSet<String>>> {
        self.living.clone()
    }
}
