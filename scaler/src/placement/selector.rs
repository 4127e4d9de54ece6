//! Node selector and required node affinity of a template, evaluated as the scheduler does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Returns true if the node selector and the required node affinity of a pod allow a node.
pub fn selects(spec: &PodSpec, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let selector = spec.node_selector.iter().flatten();
    let mut selector = selector.map(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref();
    let nodes = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let required = nodes.and_then(|nodes| {
        nodes
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let has_term = required.is_none_or(|required| {
        let mut terms = required.node_selector_terms.iter();
        terms.any(|term| matches(term, name, labels))
    });
    has_term && selector.all(|matches| matches)
}

/// Returns true if all requirements of a term are met. An empty term matches no node.
fn matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let by_label =
        |one: &NodeSelectorRequirement| meets(one, labels.get(&one.key).map(String::as_str));
    let by_name =
        |one: &NodeSelectorRequirement| one.key == "metadata.name" && meets(one, Some(name));
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(by_label)
        && fields.iter().all(by_name)
}

fn meets(one: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = one.values.as_deref().unwrap_or_default();
    let is_listed = || values.iter().any(|value| Some(value.as_str()) == found);
    let compare = |holds: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|value| value.parse().ok());
        let number = found.and_then(|found| found.parse().ok());
        number
            .zip(bound)
            .is_some_and(|(number, bound)| holds(number, bound))
    };
    match one.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare(|found, bound| found > bound),
        "Lt" => compare(|found, bound| found < bound),
        _ => false,
    }
}
