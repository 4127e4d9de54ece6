//! Interface to the namespaces of a cluster, for the API server's clients to implement.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;
use tokio::sync::watch;

/// A pod, as the kubelet names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace's name.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique identifier.
    pub uid: String,
}

/// A pod's place in the cluster and on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlace {
    /// The unique identifier of its namespace.
    pub namespace_uid: String,
    /// True if its users are those of the node (`hostUsers`). Else its container runtime maps the ids of its volumes, which
    /// it can do only with those that are not idmapped yet.
    pub host_users: bool,
}

/// A reason for which a namespace is not known. Each may pass, so the kubelet must try again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The API server does not answer, or not as expected.
    #[error("the API server cannot be asked for {what}: {problem}; {next_step}")]
    Unknown {
        /// The object.
        what: String,
        /// The failure.
        problem: String,
        /// The administrator's next step.
        next_step: Cow<'static, str>,
    },
    /// The API server knows no such object.
    #[error("the API server has no {what}; the object is gone, or not visible yet")]
    NotFound {
        /// The object.
        what: String,
    },
    /// The name belongs to another pod by now.
    #[error("pod `{namespace}/{name}` is {found} by now, expected {expected}", namespace = pod.namespace, name = pod.name, expected = pod.uid)]
    OtherPod {
        /// The pod that was asked about.
        pod: PodName,
        /// The unique identifier of the one that has its name.
        found: String,
    },
    /// The identifier cannot be part of a directory's name.
    #[error("namespace `{namespace}` has the unique identifier {found:?}, expected a UUID")]
    NotAUuid {
        /// The namespace's name.
        namespace: String,
        /// Its identifier.
        found: String,
    },
}

/// Source of the cluster's namespaces. A namespace made again has another unique
/// identifier, and no identifier comes twice.
#[tonic::async_trait]
pub trait Namespaces: fmt::Debug + Send + Sync {
    /// The namespace that `pod` is in, by its unique identifier, and whose users it has.
    async fn of_pod(&self, pod: &PodName) -> Result<PodPlace, NamespaceError>;

    /// Returns true if the namespace with this former `name` and identifier no longer exists.
    async fn is_gone(&self, name: &str, uid: &str) -> Result<bool, NamespaceError>;

    /// The identifiers of all namespaces as a watch reports them; none before the first complete
    /// list. It may lag behind, so nothing is decided by it alone.
    fn living(&self) -> watch::Receiver<Option<BTreeSet<String>>>;
}

/// An unknown cluster: no namespace gets its own store, and none counts as gone.
#[derive(Debug)]
pub struct NoCluster {
    problem: String,
    living: watch::Receiver<Option<BTreeSet<String>>>,
}

impl NoCluster {
    /// `problem` gives the reason nothing is known.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            living: watch::channel(None).1,
        }
    }

    fn unknown(&self, namespace: &str) -> NamespaceError {
        NamespaceError::Unknown {
            what: format!("namespace `{namespace}`"),
            problem: self.problem.clone(),
            next_step: "see the daemon's log".into(),
        }
    }
}

#[tonic::async_trait]
impl Namespaces for NoCluster {
    async fn of_pod(&self, pod: &PodName) -> Result<PodPlace, NamespaceError> {
        Err(self.unknown(&pod.namespace))
    }

    async fn is_gone(&self, name: &str, _uid: &str) -> Result<bool, NamespaceError> {
        Err(self.unknown(name))
    }

    fn living(&self) -> watch::Receiver<Option<BTreeSet<String>>> {
        self.living.clone()
    }
}
