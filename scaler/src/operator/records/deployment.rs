//! Deployments of functions.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;

use crate::labels;
use crate::state::Key;

/// A Deployment of a function's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentRecord {
    /// Its namespace and name.
    pub key: Key,
    /// Different for another of the same name.
    pub uid: String,
    /// Changes with each write.
    pub version: String,
    /// The function that it says it is of.
    pub function: String,
    /// The function's uid, as its owner; of one that a user made, none.
    pub owner: Option<String>,
    /// The configuration that it says it is of.
    pub configuration: String,
    /// How many pods it shall have.
    pub replicas: u32,
    /// How many it has.
    pub pods: u32,
    /// How many of them are ready.
    pub ready: u32,
    /// Whether its controller has seen what it shall have.
    pub is_observed: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Of what its template is made.
    pub template_hash: Option<String>,
    /// Preferred nodes by name, with their weights.
    pub preferred: BTreeMap<String, u32>,
}

impl DeploymentRecord {
    /// What a Deployment says; `None` for one that is of no function.
    pub fn read(deployment: &Deployment) -> Option<Self> {
        let key = Key::new(
            deployment.namespace().unwrap_or_default(),
            deployment.name_any(),
        );
        let label = |name| deployment.labels().get(name).cloned();
        let annotation = |name| deployment.annotations().get(name);
        let preferred = annotation(labels::PREFERRED_NODES);
        let preferred = preferred.and_then(|text| serde_json::from_str(text).ok());
        let owners = deployment.owner_references().iter();
        let mut owners = owners.filter(|owner| owner.kind == "InferenceFunction");
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
            preferred: preferred.unwrap_or_default(),
            key,
        })
    }
}
