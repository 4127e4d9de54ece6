//! Messages between the processes: bodies of their HTTP requests and answers, as JSON.
//!
//! Unknown fields are ignored: during a rollout the processes of one daemon may be of two versions.

mod declarations;
mod fields;
mod namespaces;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::engine::commands::StoreRemoval;
use crate::store::OpenStore;
use fields::MissingField;

pub use declarations::{
    DECLARATIONS_BYTES, DECLARATIONS_EVERY, DECLARATIONS_OLD, Declarations, DeclarationsError,
    PodDeclarations,
};
pub use namespaces::{
    Asked, LivingNamespaces, NamespaceGone, NamespaceProblem, NamespaceQuestion, PlaceOfPod,
    PodQuestion,
};

/// Order to remove the store of a namespace that is gone: `POST /stores/removal` of the broker, for
/// root alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveStore {
    /// Name of the store's directory, in the parent of `csi.per_namespace.path`.
    pub directory: String,
}

/// Result of a [`RemoveStore`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", try_from = "RemovedFields")]
pub enum RemovedStore {
    /// The store is gone.
    Removed,
    /// Its objects are mapped.
    InUse,
    /// It could not be removed now.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// Fields of a [`RemovedStore`].
#[derive(Deserialize)]
struct RemovedFields {
    outcome: RemovedOutcome,
    reason: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RemovedOutcome {
    Removed,
    InUse,
    Failed,
}

impl TryFrom<RemovedFields> for RemovedStore {
    type Error = MissingField;

    fn try_from(fields: RemovedFields) -> Result<Self, MissingField> {
        Ok(match fields.outcome {
            RemovedOutcome::Removed => Self::Removed,
            RemovedOutcome::InUse => Self::InUse,
            RemovedOutcome::Failed => Self::Failed {
                reason: fields.reason.ok_or(MissingField("reason"))?,
            },
        })
    }
}

impl From<StoreRemoval> for RemovedStore {
    fn from(removal: StoreRemoval) -> Self {
        match removal {
            StoreRemoval::Done => Self::Removed,
            StoreRemoval::InUse => Self::InUse,
            StoreRemoval::Failed(reason) => Self::Failed { reason },
        }
    }
}

/// Stores to mirror and the fields of `[gpu_mirror]` that can change: `PUT /stores` of `mirror`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStores {
    /// The open stores: these and no others.
    pub stores: Vec<MirrorStore>,
    /// `gpu_mirror.store_bytes`.
    #[serde(default)]
    pub store_bytes: Option<u64>,
    /// `gpu_mirror.connections`.
    pub connections: u64,
    /// `gpu_mirror.connections_per_user`.
    pub connections_per_user: u64,
}

/// An open store, for the GPU mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStore {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub root: PathBuf,
    /// Its identity, in hexadecimal. A store that replaces this one has another.
    pub id: String,
}

impl From<&OpenStore> for MirrorStore {
    fn from(open: &OpenStore) -> Self {
        Self {
            name: open.name.clone(),
            root: open.root.clone(),
            id: open.id.to_string(),
        }
    }
}

/// Answer to [`MirrorStores`], once they are served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorServes {
    /// The reason that no device is served; none where one is.
    pub not_open_because: Option<String>,
}

/// Order to release registered pages: `POST /references/release` of `mirror`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseReferences {
    /// Names of the stores.
    pub stores: Vec<String>,
}

/// Answer to [`ReleaseReferences`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedReferences {
    /// Number of released bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_removal_has_an_outcome_and_a_reason_if_it_failed() {
        for (removed, expected) in [
            (RemovedStore::Removed, json!({"outcome": "removed"})),
            (RemovedStore::InUse, json!({"outcome": "in-use"})),
            (
                RemovedStore::Failed {
                    reason: "busy".into(),
                },
                json!({"outcome": "failed", "reason": "busy"}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&removed).unwrap(), expected);
            assert_eq!(
                serde_json::from_value::<RemovedStore>(expected).unwrap(),
                removed
            );
        }
    }

    #[test]
    fn fields_of_a_later_version_are_ignored() {
        let order = json!({"directory": "blue.x", "at_once": true});
        let order: RemoveStore = serde_json::from_value(order).unwrap();
        assert_eq!(order.directory, "blue.x");
        let outcome = json!({"outcome": "in-use", "by": 7});
        let outcome: RemovedStore = serde_json::from_value(outcome).unwrap();
        assert_eq!(outcome, RemovedStore::InUse);
    }
}
