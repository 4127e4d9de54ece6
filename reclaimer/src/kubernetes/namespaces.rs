//! Namespaces by their unique identifiers: a watch of their metadata, and single questions where it
//! is not enough.
//!
//! Guarantees:
//! - The answer about a pod is right for that pod, however late the watch is. The namespace is
//!   asked for first, then the pod, each from the API server's own store. A pod that was there
//!   before the first question and is there at the second was there in between, in the namespace
//!   that was found: namespaces end after their pods.
//! - A namespace is gone when the API server reports it by name: with the status `NotFound`, or with
//!   another identifier.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event};
use kube::{Api, Client};
use tokio::sync::watch;

use super::failure::{self, next_step_with, root_cause};
use super::{BACKOFF_MAX, Fault, WATCH_SECONDS};
use crate::csi::{NamespaceError, Namespaces, PodName, PodPlace};
use crate::uuid::is_uuid;

/// Longest wait for one answer. The kubelet asks again after a failure, with longer and longer
/// waits.
const ANSWER: Duration = Duration::from_secs(10);
/// Namespaces per page of a list.
const PAGE: u32 = 500;
/// By which a kubelet marks the object that stands for a static pod, with the identifier that the
/// pod itself has.
const MIRROR: &str = "kubernetes.io/config.mirror";

const NAMESPACES: &str =
    "allow the daemon's service account to get, list and watch namespaces, and to get pods";

/// A namespace, of which the server sends the metadata alone.
type Metadata = PartialObjectMeta<Namespace>;

/// The namespaces of an API server.
pub struct KnownNamespaces {
    client: Client,
    living: watch::Receiver<Option<BTreeSet<String>>>,
}

impl fmt::Debug for KnownNamespaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KnownNamespaces")
            .finish_non_exhaustive()
    }
}

impl KnownNamespaces {
    /// Asks through `client`; `living` is the set of [`watch_namespaces`].
    pub fn new(client: Client, living: watch::Receiver<Option<BTreeSet<String>>>) -> Self {
        Self { client, living }
    }

    async fn namespace(&self, name: &str) -> Result<String, NamespaceError> {
        let what = format!("namespace `{name}`");
        let api = Api::<Namespace>::all(self.client.clone());
        let metadata = answer(&what, api.get_metadata(name)).await?;
        let uid = metadata.metadata.uid.unwrap_or_default();
        if !is_uuid(&uid) {
            let namespace = name.to_owned();
            return Err(NamespaceError::NotAUuid {
                namespace,
                found: uid.chars().take(64).collect(),
            });
        }
        Ok(uid)
    }
}

#[tonic::async_trait]
impl Namespaces for KnownNamespaces {
    async fn of_pod(&self, pod: &PodName) -> Result<PodPlace, NamespaceError> {
        let namespace_uid = self.namespace(&pod.namespace).await?;
        let what = format!("pod `{}/{}`", pod.namespace, pod.name);
        let api = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace);
        let Pod {
            metadata: found,
            spec,
            ..
        } = answer(&what, api.get(&pod.name)).await?;
        let stands_for = found.annotations.as_ref().and_then(|all| all.get(MIRROR));
        if found.uid.as_ref() == Some(&pod.uid) || stands_for == Some(&pod.uid) {
            let host_users = spec.and_then(|spec| spec.host_users);
            return Ok(PodPlace {
                namespace_uid,
                host_users: host_users != Some(false),
            });
        }
        Err(NamespaceError::OtherPod {
            pod: pod.clone(),
            found: found.uid.unwrap_or_default(),
        })
    }

    async fn is_gone(&self, name: &str, uid: &str) -> Result<bool, NamespaceError> {
        match self.namespace(name).await {
            Ok(found) => Ok(found != uid),
            Err(NamespaceError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn living(&self) -> watch::Receiver<Option<BTreeSet<String>>> {
        self.living.clone()
    }
}

async fn answer<T>(
    what: &str,
    question: impl Future<Output = kube::Result<T>>,
) -> Result<T, NamespaceError> {
    let unknown = |problem: String, next_step: &'static str| NamespaceError::Unknown {
        what: what.to_owned(),
        problem,
        next_step: next_step.into(),
    };
    match tokio::time::timeout(ANSWER, question).await {
        Err(_) => {
            let problem = format!("no answer within {} s", ANSWER.as_secs());
            Err(unknown(
                problem,
                "check that this node reaches the API server",
            ))
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 && status.reason == "NotFound" => {
            Err(NamespaceError::NotFound {
                what: what.to_owned(),
            })
        }
        Ok(Err(error)) => {
            let step = next_step_with(failure::code(&error), NAMESPACES);
            Err(unknown(chain(&error), step))
        }
        Ok(Ok(found)) => Ok(found),
    }
}

/// An error with its innermost cause, which wrappers tend not to print.
fn chain(error: &kube::Error) -> String {
    let (text, cause) = (error.to_string(), root_cause(error).to_string());
    if text.contains(&cause) {
        text
    } else {
        format!("{text}: {cause}")
    }
}

/// Keeps the set in `living` true until `stop` is done. Errors do not end it, and take nothing out
/// of the set. `faults` is called for each and must not block.
pub async fn watch_namespaces(
    client: Client,
    living: watch::Sender<Option<BTreeSet<String>>>,
    faults: impl Fn(Fault),
    stop: impl Future<Output = ()>,
) {
    let all = Api::<Metadata>::all(client);
    tokio::select! {
        () = stop => {}
        () = follow(&all, &living, faults) => {}
    }
}

/// Starts over with a list after any error, as the watch of pods does.
async fn follow(
    all: &Api<Metadata>,
    living: &watch::Sender<Option<BTreeSet<String>>>,
    faults: impl Fn(Fault),
) {
    let mut backoff = DefaultBackoff::default();
    let (mut failing, mut starting) = (false, false);
    loop {
        let ended = session(all, living, &mut failing).await;
        let mut delay = backoff.next().unwrap_or(BACKOFF_MAX);
        if let Err(error) = ended {
            delay = delay.max(failure::retry_after(&error).unwrap_or_default());
            let cause = root_cause(&error);
            let code = failure::watch_code(&error);
            // An API server that has just started answers this once, while it fills its caches.
            let starting = code == Some(429) && !std::mem::replace(&mut starting, true);
            if starting || std::mem::replace(&mut failing, true) {
                tracing::debug!(%error, %cause, "namespaces still cannot be watched");
            } else {
                let next_step = next_step_with(code, NAMESPACES);
                tracing::warn!(%error, %cause, next_step, "cannot watch namespaces: stores of those that go stay until it can");
            }
            faults(Fault::Watch);
        }
        tokio::time::sleep(delay).await;
    }
}

/// Lists, then watches, until something fails.
async fn session(
    all: &Api<Metadata>,
    living: &watch::Sender<Option<BTreeSet<String>>>,
    failing: &mut bool,
) -> Result<(), watcher::Error> {
    let config = Config::default().page_size(PAGE).timeout(WATCH_SECONDS);
    let mut events = pin!(kube::runtime::watcher(all.clone(), config));
    let mut listed = BTreeSet::new();
    while let Some(event) = events.try_next().await? {
        match event {
            Event::Init => listed = BTreeSet::new(),
            Event::InitApply(namespace) => listed.extend(uid(namespace)),
            // The list is complete: only now is a namespace that is not in it gone.
            Event::InitDone => {
                let listed = std::mem::take(&mut listed);
                if std::mem::take(failing) {
                    tracing::info!(namespaces = listed.len(), "namespaces are watched again");
                }
                living.send_if_modified(|set| set.replace(listed) != *set);
            }
            // Only real changes are reported: a namespace is written to more often than it comes or
            // goes.
            Event::Apply(namespace) => {
                if let Some(uid) = uid(namespace) {
                    living.send_if_modified(|set| set.as_mut().is_some_and(|set| set.insert(uid)));
                }
            }
            Event::Delete(namespace) => {
                if let Some(uid) = uid(namespace) {
                    living.send_if_modified(|set| set.as_mut().is_some_and(|set| set.remove(&uid)));
                }
            }
        }
    }
    Ok(())
}

fn uid(namespace: Metadata) -> Option<String> {
    namespace.metadata.uid
}
