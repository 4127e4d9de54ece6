//! Kubernetes in steps: garbage collection, Deployments, the scheduler, kubelets.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::whole::api::{Objects, id};

type Pod = ((String, String, String), Value);

pub fn step(objects: &mut Objects, holds_pods: bool) {
    kubelets(objects, holds_pods);
    schedule(objects);
    for resource in ["deployments", "pods"] {
        collect(objects, resource);
    }
    for (key, deployment) in objects.of("deployments") {
        let pods = pods_of(objects, &deployment);
        let (have, want) = (pods.len() as u64, replicas(&deployment));
        if have < want {
            make(objects, &deployment);
        } else if have > want {
            objects.change(&first_to_go(pods).0, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            });
        }
        report(objects, &key);
    }
}

/// Deletes objects without an existing owner.
fn collect(objects: &mut Objects, resource: &str) {
    for (key, object) in objects.of(resource) {
        let owners = object["metadata"]["ownerReferences"].as_array();
        if owners.is_some_and(|all| !all.iter().any(|entry| objects.has_uid(&entry["uid"]))) {
            objects.remove(&key);
        }
    }
}

pub fn replicas(deployment: &Value) -> u64 {
    deployment["spec"]["replicas"].as_u64().unwrap_or(1)
}

/// Returns its pods, without those that leave.
fn pods_of(objects: &Objects, deployment: &Value) -> Vec<Pod> {
    let uid = &deployment["metadata"]["uid"];
    let mut pods = objects.of("pods");
    pods.retain(|(_, pod)| {
        pod["metadata"]["ownerReferences"][0]["uid"] == *uid
            && pod["metadata"]["deletionTimestamp"].is_null()
    });
    pods
}

fn make(objects: &mut Objects, deployment: &Value) {
    let metadata = &deployment["metadata"];
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"],
    }]);
    let (namespace, name) = (metadata["namespace"].as_str(), metadata["name"].as_str());
    let name = format!("{}-{:06}", name.unwrap(), objects.version);
    objects.create(&id("pods", namespace.unwrap(), &name), pod);
}

/// Returns the pod that a ReplicaSet deletes first: without a node, not ready, of lower cost,
/// younger.
fn first_to_go(pods: Vec<Pod>) -> Pod {
    let rank = |pod: &Pod| {
        let cost = &pod.1["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"];
        let cost: i64 = cost.as_str().map_or(0, |cost| cost.parse().unwrap());
        let placed = pod.1["spec"]["nodeName"].is_string();
        (placed, is_ready(&pod.1), cost, Reverse(pod.0.2.clone()))
    };
    pods.into_iter().min_by_key(rank).unwrap()
}

pub fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

fn report(objects: &mut Objects, key: &(String, String, String)) {
    let deployment = objects.get(key).unwrap().clone();
    let pods = pods_of(objects, &deployment);
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
    objects.change(key, |deployment| {
        deployment["status"] = json!({
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": pods.len(),
            "readyReplicas": ready,
        });
    });
}

/// Schedules each pod to a preferred node, or elsewhere if that has no room.
fn schedule(objects: &mut Objects) {
    let nodes = objects.of("nodes");
    for (key, pod) in objects.of("pods") {
        let gates = pod["spec"]["schedulingGates"].as_array();
        if pod["spec"]["nodeName"].is_string() || gates.is_some_and(|gates| !gates.is_empty()) {
            continue;
        }
        let required = &pod["spec"]["affinity"]["nodeAffinity"];
        let required = &required["requiredDuringSchedulingIgnoredDuringExecution"];
        let only = required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str();
        let preferred = preferences(&pod);
        let mut free: Vec<(u64, Reverse<usize>, String)> = Vec::new();
        for ((_, _, node), object) in &nodes {
            let pods = objects.of("pods");
            let there = pods
                .iter()
                .filter(|(_, pod)| pod["spec"]["nodeName"] == **node);
            let taken: u64 = there.clone().map(|(_, pod)| cpu(pod)).sum();
            let all = object["status"]["allocatable"]["cpu"].as_str().unwrap();
            let allows = only.is_none_or(|only| only == node);
            if allows && taken + cpu(&pod) <= all.parse::<u64>().unwrap() * 1_000 {
                let weight = preferred.get(node).copied().unwrap_or(0);
                free.push((weight, Reverse(there.count()), node.clone()));
            }
        }
        let taken_by = free.into_iter().max().map(|(_, _, node)| node);
        objects.change(&key, |pod| {
            if let Some(node) = taken_by {
                pod["spec"]["nodeName"] = node.into();
                return;
            }
            let refusal =
                json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
            pod["status"]["conditions"] = json!([refusal]);
        });
    }
}

/// Returns the requests of its containers, in millicores.
fn cpu(pod: &Value) -> u64 {
    let containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let requests =
        containers.filter_map(|container| container["resources"]["requests"]["cpu"].as_str());
    requests
        .map(|text| text.trim_end_matches('m').parse::<u64>().unwrap())
        .sum()
}

/// Returns the weights of nodes by name.
pub fn preferences(pod: &Value) -> BTreeMap<String, u64> {
    let terms = &pod["spec"]["affinity"]["nodeAffinity"];
    let terms = &terms["preferredDuringSchedulingIgnoredDuringExecution"];
    let terms = terms.as_array().into_iter().flatten();
    let weighed = terms.map(|term| {
        let name = &term["preference"]["matchExpressions"][0]["values"][0];
        (
            name.as_str().unwrap().to_owned(),
            term["weight"].as_u64().unwrap(),
        )
    });
    weighed.collect()
}

/// Removes pods that leave, and makes scheduled pods ready.
fn kubelets(objects: &mut Objects, holds_pods: bool) {
    for (key, pod) in objects.of("pods") {
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            objects.remove(&key);
        } else if pod["spec"]["nodeName"].is_string() && !is_ready(&pod) && !holds_pods {
            objects.change(&key, |pod| {
                pod["status"]["phase"] = "Running".into();
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            });
        }
    }
}
