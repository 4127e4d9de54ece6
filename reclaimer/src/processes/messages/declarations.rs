//! Declarations of pods on their way from `cluster` to the broker.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::fields::MissingField;
use crate::keep_warm::{Declaration, DeclarationError, Freshness, Pod, WarmSet};
use crate::records::millis;

/// Time after which `cluster` repeats its declarations though none changed, so that a broker that
/// was restarted gets them.
pub const DECLARATIONS_EVERY: Duration = Duration::from_secs(10);
/// Age from which the broker takes declarations for stale.
pub const DECLARATIONS_OLD: Duration = Duration::from_secs(30);
/// Maximum length of the declarations as JSON, in bytes: 16 KiB for each of 256 pods. Both processes have it in memory a few times
/// over, and `cluster` ships with 64 MiB.
pub const DECLARATIONS_BYTES: usize = 4 << 20;

/// All declarations at one moment, a [`WarmSet`]: `PUT /declarations` of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declarations {
    /// Trust in them.
    pub freshness: Trust,
    /// Pods with declarations.
    pub pods: Vec<PodDeclarations>,
}

/// [`Freshness`] with the moment of the break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", try_from = "TrustFields")]
pub enum Trust {
    /// There is no cluster.
    NoCluster,
    /// The API server was not reached since `cluster` started.
    Unknown,
    /// The watch is up.
    Current,
    /// The watch broke.
    Stale {
        /// Time of the break, in milliseconds since the epoch.
        since_ms: u64,
    },
}

/// Fields of a [`Trust`].
#[derive(Deserialize)]
struct TrustFields {
    state: TrustState,
    since_ms: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TrustState {
    NoCluster,
    Unknown,
    Current,
    Stale,
}

impl TryFrom<TrustFields> for Trust {
    type Error = MissingField;

    fn try_from(fields: TrustFields) -> Result<Self, MissingField> {
        Ok(match fields.state {
            TrustState::NoCluster => Self::NoCluster,
            TrustState::Unknown => Self::Unknown,
            TrustState::Current => Self::Current,
            TrustState::Stale => Self::Stale {
                since_ms: fields.since_ms.ok_or(MissingField("since_ms"))?,
            },
        })
    }
}

/// Declarations of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PodFields")]
pub struct PodDeclarations {
    /// The pod.
    #[serde(flatten)]
    pub pod: Pod,
    /// Its declarations, as its annotation has them.
    pub models: Vec<String>,
}

/// Fields of [`PodDeclarations`].
#[derive(Deserialize)]
struct PodFields {
    namespace: String,
    name: String,
    uid: String,
    models: Vec<String>,
}

impl From<PodFields> for PodDeclarations {
    fn from(fields: PodFields) -> Self {
        let PodFields {
            namespace,
            name,
            uid,
            models,
        } = fields;
        let pod = Pod {
            namespace,
            name,
            uid,
        };
        Self { pod, models }
    }
}

/// Declarations that no pod can have made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("pod `{namespace}/{name}`: {source}", namespace = pod.namespace, name = pod.name)]
pub struct DeclarationsError {
    /// The pod.
    pub pod: Pod,
    /// The first mistake.
    pub source: DeclarationError,
}

impl From<&WarmSet> for Declarations {
    fn from(set: &WarmSet) -> Self {
        let pods = set.pods.iter().map(|(pod, models)| PodDeclarations {
            pod: pod.clone(),
            models: models.iter().map(ToString::to_string).collect(),
        });
        Self {
            freshness: set.freshness.into(),
            pods: pods.collect(),
        }
    }
}

impl TryFrom<Declarations> for WarmSet {
    type Error = DeclarationsError;

    fn try_from(message: Declarations) -> Result<Self, DeclarationsError> {
        let pods = message
            .pods
            .into_iter()
            .map(|PodDeclarations { pod, models }| {
                let parsed: Result<BTreeSet<Declaration>, _> =
                    models.iter().map(|model| model.parse()).collect();
                match parsed {
                    Ok(models) => Ok((pod, models)),
                    Err(source) => Err(DeclarationsError { pod, source }),
                }
            });
        Ok(Self {
            freshness: message.freshness.into(),
            pods: pods.collect::<Result<_, _>>()?,
        })
    }
}

impl From<Freshness> for Trust {
    fn from(freshness: Freshness) -> Self {
        match freshness {
            Freshness::NoCluster => Self::NoCluster,
            Freshness::Unknown => Self::Unknown,
            Freshness::Current => Self::Current,
            Freshness::Stale { since } => Self::Stale {
                since_ms: millis(since),
            },
        }
    }
}

impl From<Trust> for Freshness {
    fn from(trust: Trust) -> Self {
        match trust {
            Trust::NoCluster => Self::NoCluster,
            Trust::Unknown => Self::Unknown,
            Trust::Current => Self::Current,
            Trust::Stale { since_ms } => Self::Stale {
                since: UNIX_EPOCH
                    .checked_add(Duration::from_millis(since_ms))
                    .unwrap_or_else(SystemTime::now),
            },
        }
    }
}
