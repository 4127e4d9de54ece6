//! Deployment of a configuration.

use std::collections::BTreeMap;

use kube::Resource as _;
use serde_json::{Value, json};
use tetris_scaler_core::Preference;

use super::json_paths::list;
use super::names::deployment_name;
use super::prepare::Prepared;
use super::records::{DeploymentRecord, FunctionRecord};
use super::template::Template;
use crate::labels;
use crate::resources::InferenceFunction;

/// Maximum number of preferred nodes in a template.
const MAX_PREFERRED: usize = 20;

/// Maximum length of the plan in an annotation; all of them may have 256 KiB.
const MAX_PLANNED_BYTES: usize = 128 << 10;

/// Properties of a Deployment.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The function.
    pub record: &'a FunctionRecord,
    /// The function with its profile.
    pub prepared: &'a Prepared,
    /// Name of the configuration.
    pub configuration: &'a str,
    /// Pod template of the configuration.
    pub template: &'a Template,
    /// Preferred nodes by hostname, with their weights.
    pub preferred: &'a BTreeMap<String, u32>,
    /// Planned number of instances by the name of the node.
    pub planned: &'a BTreeMap<String, u32>,
    /// Number of instances.
    pub replicas: u32,
}

/// Returns the object to apply. With `present`, it applies only if that version is current.
pub fn deployment(wanted: &Wanted<'_>, present: Option<&DeploymentRecord>) -> Value {
    let function = &wanted.prepared.function;
    let marks = json!({
        labels::FUNCTION: function.name,
        labels::CONFIGURATION: wanted.configuration,
    });
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment_name(&function.name, wanted.configuration),
            "namespace": function.namespace,
            "labels": marks,
            "annotations": {
                labels::TEMPLATE_HASH: wanted.template.hash,
                labels::PREFERRED_NODES: json!(wanted.preferred).to_string(),
                labels::PLANNED_NODES: bounded(wanted.planned),
            },
            "ownerReferences": [{
                "apiVersion": InferenceFunction::api_version(&()),
                "kind": InferenceFunction::kind(&()),
                "name": function.name,
                "uid": wanted.record.uid,
                "controller": true,
            }],
        },
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": marks},
            "strategy": function.rollout.strategy(),
            "template": preferring(wanted.template.pods.clone(), wanted.preferred),
        },
    });
    if let Some(present) = present
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("resourceVersion".to_owned(), present.version.clone().into());
        metadata.insert("uid".to_owned(), present.uid.clone().into());
    }
    object
}

/// Returns the plan as JSON, without the last nodes if it is too long for an annotation: their
/// instances are planned anew.
fn bounded(planned: &BTreeMap<String, u32>) -> String {
    let length = |(name, _): &(&String, &u32)| name.len().saturating_add(16);
    let mut total = 0_usize;
    let first = planned.iter().take_while(|entry| {
        total = total.saturating_add(length(entry));
        total <= MAX_PLANNED_BYTES
    });
    json!(first.collect::<BTreeMap<_, _>>()).to_string()
}

/// Returns the weights of the preferred nodes by hostname, the label that affinity uses: up to 50
/// by score, and 50 more for nodes where the plan puts an instance.
pub fn weights(preferred: &[Preference], hostnames: &[String]) -> BTreeMap<String, u32> {
    let first = preferred.iter().take(MAX_PREFERRED);
    let weighed = first.filter_map(|entry| {
        let share = (entry.score / 20).clamp(1, 50);
        let planned = if entry.planned > 0 { 50 } else { 0 };
        let weight = share.saturating_add(planned).min(100);
        Some((hostnames.get(entry.node)?.clone(), weight))
    });
    weighed.collect()
}

fn preferring(mut pods: Value, preferred: &BTreeMap<String, u32>) -> Value {
    if preferred.is_empty() {
        return pods;
    }
    let terms = list(
        &mut pods,
        &["spec", "affinity", "nodeAffinity"],
        "preferredDuringSchedulingIgnoredDuringExecution",
    );
    for (hostname, weight) in preferred {
        terms.push(json!({
            "weight": weight,
            "preference": {"matchExpressions": [
                {"key": labels::HOSTNAME, "operator": "In", "values": [hostname]},
            ]},
        }));
    }
    pods
}
