//! Deployments of functions.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStrategy};
use kube::ResourceExt as _;

use super::custom::FunctionRecord;
use crate::labels;
use crate::operator::names::deployment_name;
use crate::resources::RolloutSpec;
use crate::state::Key;

/// A Deployment of a function's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// Namespace and name of the Deployment.
    pub key: Key,
    /// Unique id, different for a recreated Deployment.
    pub uid: String,
    /// Resource version, which changes with each write.
    pub version: String,
    /// Name of the function, by its label.
    pub function: String,
    /// Uid of the function that controls it; `None` for a Deployment of a user.
    pub owner: Option<String>,
    /// Name of the configuration, by its label.
    pub configuration: String,
    /// Requested number of pods.
    pub replicas: u32,
    /// Current number of pods.
    pub pods: u32,
    /// Number of ready pods.
    pub ready: u32,
    /// True if its controller has seen the latest spec.
    pub is_observed: bool,
    /// True if it is being deleted.
    pub is_deleting: bool,
    /// Hash of its template.
    pub template_hash: Option<String>,
    /// Preferred nodes by hostname, with their weights.
    pub preferred: BTreeMap<String, u32>,
    /// Planned number of instances by node.
    pub planned: BTreeMap<String, u32>,
    /// Pods that it replaces at a time.
    pub rollout: RolloutSpec,
}

impl DeploymentRecord {
    /// Parses a Deployment; returns `None` for one without a function.
    pub fn read(deployment: &Deployment) -> Option<Self> {
        let key = Key::new(
            deployment.namespace().unwrap_or_default(),
            deployment.name_any(),
        );
        let label = |name| deployment.labels().get(name).cloned();
        let annotation = |name| deployment.annotations().get(name);
        let numbers = |name| {
            let numbers = annotation(name).and_then(|text| serde_json::from_str(text).ok());
            numbers.unwrap_or_default()
        };
        let owners = deployment.owner_references().iter();
        let mut owners = owners
            .filter(|owner| owner.kind == "InferenceFunction" && owner.controller == Some(true));
        let spec = deployment.spec.as_ref();
        let status = deployment.status.as_ref();
        let count = |number: Option<i32>| u32::try_from(number.unwrap_or(0)).unwrap_or(0);
        let seen = status.and_then(|status| status.observed_generation);
        Some(Self {
            uid: deployment.uid().unwrap_or_default(),
            version: deployment.resource_version().unwrap_or_default(),
            function: label(labels::FUNCTION)?,
            configuration: label(labels::CONFIGURATION)?,
            owner: owners.next().map(|owner| owner.uid.clone()),
            replicas: count(spec.map(|spec| spec.replicas.unwrap_or(1))),
            pods: count(status.and_then(|status| status.replicas)),
            ready: count(status.and_then(|status| status.ready_replicas)),
            is_observed: seen >= deployment.metadata.generation,
            is_deleting: deployment.metadata.deletion_timestamp.is_some(),
            template_hash: annotation(labels::TEMPLATE_HASH).cloned(),
            preferred: numbers(labels::PREFERRED_NODES),
            planned: numbers(labels::PLANNED_NODES),
            rollout: rollout(spec.and_then(|spec| spec.strategy.as_ref())),
            key,
        })
    }

    /// Returns true if the operator made it for `function`, and it is not being deleted. One with
    /// the same labels and name may be a user's, or that of a deleted function of the same name.
    pub fn is_of(&self, function: &FunctionRecord) -> bool {
        !self.is_deleting
            && self.owner.as_ref() == Some(&function.uid)
            && self.function == function.key.name
            && self.key.namespace == function.key.namespace
            && self.key.name == deployment_name(&function.key.name, &self.configuration)
    }
}

/// Returns the pods that a strategy replaces at a time. The API server writes both fields of a rolling
/// update; another strategy has none of them, and is none of the operator's.
fn rollout(strategy: Option<&DeploymentStrategy>) -> RolloutSpec {
    let update = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let default = RolloutSpec::default();
    RolloutSpec {
        max_surge: update
            .and_then(|update| update.max_surge.clone())
            .unwrap_or(default.max_surge),
        max_unavailable: update
            .and_then(|update| update.max_unavailable.clone())
            .unwrap_or(default.max_unavailable),
    }
}
