//! Writes that a pass plans.

use serde_json::Value;

use crate::resources::InferenceFunctionStatus;
use crate::state::Key;

/// An action of the operator.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Marks a pod. `None` leaves a mark unchanged.
    Mark {
        /// Key of the pod.
        pod: Key,
        /// True if the pod is being replaced.
        retiring: Option<bool>,
        /// Deletion cost of the pod.
        cost: Option<i32>,
    },
    /// Applies an existing Deployment unless it has changed, or creates a new one.
    Apply {
        /// Namespace and name of the Deployment.
        key: Key,
        /// True if it existed.
        is_present: bool,
        /// The object to apply.
        object: Value,
    },
    /// Changes only the number of instances, for a configuration outside the profile.
    Scale {
        /// Key of the Deployment.
        key: Key,
        /// Its observed version.
        version: String,
        /// Number of instances.
        replicas: u32,
    },
    /// Deletes a Deployment without pods, unless it has changed.
    Delete {
        /// Key of the Deployment.
        key: Key,
        /// Its uid.
        uid: String,
        /// Its observed version.
        version: String,
    },
    /// Publishes an event.
    Event {
        /// True for a warning.
        is_warning: bool,
        /// The reason, in one word.
        reason: String,
        /// The reason, in a sentence.
        note: String,
    },
    /// Writes the status.
    Status(Box<InferenceFunctionStatus>),
}

impl Action {
    /// Name in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Mark { .. } => "mark",
            Self::Apply { .. } => "apply",
            Self::Scale { .. } => "scale",
            Self::Delete { .. } => "delete",
            Self::Event { .. } => "event",
            Self::Status(_) => "status",
        }
    }
}
