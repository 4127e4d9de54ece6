//! Questions about pods and namespaces, from `volumes` to `cluster`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::fields::MissingField;
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

/// All namespaces as the watch reports them: `GET /namespaces/living` of `cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivingNamespaces {
    /// Their unique identifiers; none before the first complete list.
    pub uids: Option<BTreeSet<String>>,
}

/// Answer to a question, or the reason that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[serde(rename_all = "kebab-case", tag = "kind", try_from = "ProblemFields")]
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

/// Fields of a [`NamespaceProblem`].
#[derive(Deserialize)]
struct ProblemFields {
    kind: ProblemKind,
    what: Option<String>,
    problem: Option<String>,
    next_step: Option<String>,
    pod: Option<PodQuestion>,
    namespace: Option<String>,
    found: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProblemKind {
    Unknown,
    NotFound,
    OtherPod,
    NotAUuid,
}

impl TryFrom<ProblemFields> for NamespaceProblem {
    type Error = MissingField;

    fn try_from(fields: ProblemFields) -> Result<Self, MissingField> {
        let text = |field: Option<String>, name| field.ok_or(MissingField(name));
        Ok(match fields.kind {
            ProblemKind::Unknown => Self::Unknown {
                what: text(fields.what, "what")?,
                problem: text(fields.problem, "problem")?,
                next_step: text(fields.next_step, "next_step")?,
            },
            ProblemKind::NotFound => Self::NotFound {
                what: text(fields.what, "what")?,
            },
            ProblemKind::OtherPod => Self::OtherPod {
                pod: fields.pod.ok_or(MissingField("pod"))?,
                found: text(fields.found, "found")?,
            },
            ProblemKind::NotAUuid => Self::NotAUuid {
                namespace: text(fields.namespace, "namespace")?,
                found: text(fields.found, "found")?,
            },
        })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Asked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AskedVisitor(PhantomData))
    }
}

struct AskedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AskedVisitor<T> {
    type Value = Asked<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer or `error`")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Asked<T>, A::Error> {
        let mut error = None;
        let others = WithoutError {
            fields,
            error: &mut error,
        };
        let answer = T::deserialize(MapAccessDeserializer::new(others));
        match error {
            Some(error) => Ok(Asked::Failed { error }),
            None => answer.map(Asked::Answer),
        }
    }
}

/// The fields of an answer, without `error`, which is put aside.
struct WithoutError<'a, A> {
    fields: A,
    error: &'a mut Option<NamespaceProblem>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutError<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.fields.next_key::<Cow<'de, str>>()? {
            if name != "error" {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            *self.error = Some(self.fields.next_value()?);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.fields.next_value_seed(seed)
    }
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
