//! Questions about pods and namespaces, from `volumes` to `cluster`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::csi::{NamespaceError, PodName, PodPlace};

/// Question for a pod's place: `POST /pods/place` of `cluster`, answered by
/// [`Asked`]`<`[`PlaceOfPod`]`>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodQuestion {
    /// Its namespace's name.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique identifier.
    pub uid: String,
}

/// A [`PodPlace`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceOfPod {
    /// The unique identifier of its namespace.
    pub namespace_uid: String,
    /// True if its users are those of the node.
    pub host_users: bool,
}

/// Question if a namespace is gone: `POST /namespaces/gone` of `cluster`, answered by
/// [`Asked`]`<`[`NamespaceGone`]`>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceQuestion {
    /// Its former name.
    pub name: String,
    /// Its unique identifier.
    pub uid: String,
}

/// Answer to a [`NamespaceQuestion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceGone {
    /// True if it no longer exists.
    pub gone: bool,
}

/// All namespaces as the watch tells them: `GET /namespaces/living` of `cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivingNamespaces {
    /// Their unique identifiers; none before the first complete list.
    pub uids: Option<BTreeSet<String>>,
}

/// Answer to a question, or the reason that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Asked<T> {
    /// There is none.
    Failed {
        /// The reason.
        error: NamespaceProblem,
    },
    /// The answer.
    Answer(T),
}

/// A [`NamespaceError`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum NamespaceProblem {
    /// [`NamespaceError::Unknown`].
    Unknown {
        /// The object.
        what: String,
        /// The failure.
        problem: String,
        /// The administrator's next step.
        next_step: String,
    },
    /// [`NamespaceError::NotFound`].
    NotFound {
        /// The object.
        what: String,
    },
    /// [`NamespaceError::OtherPod`].
    OtherPod {
        /// The pod that was asked about.
        pod: PodQuestion,
        /// The unique identifier of the one that has its name.
        found: String,
    },
    /// [`NamespaceError::NotAUuid`].
    #[serde(rename = "not-a-uuid")]
    NotAUuid {
        /// The namespace's name.
        namespace: String,
        /// Its identifier.
        found: String,
    },
}

impl<T> Asked<T> {
    /// The message of `answered`.
    pub fn of(answered: Result<impl Into<T>, NamespaceError>) -> Self {
        match answered {
            Ok(answer) => Self::Answer(answer.into()),
            Err(error) => Self::Failed {
                error: error.into(),
            },
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// The reason that there is none.
    pub fn answered(self) -> Result<T, NamespaceError> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Failed { error } => Err(error.into()),
        }
    }
}

impl From<&PodName> for PodQuestion {
    fn from(pod: &PodName) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}

impl From<PodQuestion> for PodName {
    fn from(pod: PodQuestion) -> Self {
        Self {
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
        }
    }
}

impl From<PodPlace> for PlaceOfPod {
    fn from(place: PodPlace) -> Self {
        Self {
            namespace_uid: place.namespace_uid,
            host_users: place.host_users,
        }
    }
}

impl From<PlaceOfPod> for PodPlace {
    fn from(place: PlaceOfPod) -> Self {
        Self {
            namespace_uid: place.namespace_uid,
            host_users: place.host_users,
        }
    }
}

impl From<bool> for NamespaceGone {
    fn from(gone: bool) -> Self {
        Self { gone }
    }
}

impl From<NamespaceError> for NamespaceProblem {
    fn from(error: NamespaceError) -> Self {
        match error {
            NamespaceError::Unknown {
                what,
                problem,
                next_step,
            } => Self::Unknown {
                what,
                problem,
                next_step: next_step.into_owned(),
            },
            NamespaceError::NotFound { what } => Self::NotFound { what },
            NamespaceError::OtherPod { pod, found } => Self::OtherPod {
                pod: (&pod).into(),
                found,
            },
            NamespaceError::NotAUuid { namespace, found } => Self::NotAUuid { namespace, found },
        }
    }
}

impl From<NamespaceProblem> for NamespaceError {
    fn from(problem: NamespaceProblem) -> Self {
        match problem {
            NamespaceProblem::Unknown {
                what,
                problem,
                next_step,
            } => Self::Unknown {
                what,
                problem,
                next_step: next_step.into(),
            },
            NamespaceProblem::NotFound { what } => Self::NotFound { what },
            NamespaceProblem::OtherPod { pod, found } => Self::OtherPod {
                pod: pod.into(),
                found,
            },
            NamespaceProblem::NotAUuid { namespace, found } => Self::NotAUuid { namespace, found },
        }
    }
}
