//! The Deployment of a configuration.

use std::collections::BTreeMap;

use kube::Resource as _;
use serde_json::{Value, json};
use tetris_scaler_core::Preference;

use super::names::deployment_name;
use super::prepare::Prepared;
use super::records::{DeploymentRecord, FunctionRecord};
use super::template::{Template, list};
use crate::labels;
use crate::resources::InferenceFunction;

/// The most nodes that a template prefers.
const MAX_PREFERRED: usize = 20;

/// What is applied.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The function.
    pub record: &'a FunctionRecord,
    /// The same with its profile.
    pub prepared: &'a Prepared,
    /// The configuration's name.
    pub configuration: &'a str,
    /// Its template.
    pub template: &'a Template,
    /// Preferred nodes, with their weights.
    pub preferred: &'a BTreeMap<String, u32>,
    /// Instances.
    pub replicas: u32,
}

/// The object to apply. With `present`, only if that has not been written meanwhile.
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

/// The weights of the nodes that a decision prefers, by the label that the scheduler goes by: up to 49 for what
/// a node has, and 50 more where the plan puts an instance.
pub fn weights(preferred: &[Preference], hostnames: &[String]) -> BTreeMap<String, u32> {
    let first = preferred.iter().take(MAX_PREFERRED);
    let weighed = first.filter_map(|one| {
        let share = (one.score / 20).clamp(1, 50);
        let planned = if one.planned > 0 { 50 } else { 0 };
        let weight = share.saturating_add(planned).min(100);
        Some((hostnames.get(one.node)?.clone(), weight))
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
