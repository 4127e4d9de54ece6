//! Pods of other owners that name their model: they go where it is, although other nodes are empty, and start while the operator
//! is away.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::cluster::install::{
    APPLY, Applied, SYSTEM, config_map, image, look_at, on_the_cluster, require_absent,
    wait_for_daemons, wait_for_rollout,
};
use crate::cluster::scaling::{NAMESPACE, add_tensors, require_ready};

const EMPTY_NODES: [&str; 2] = ["tetris-e2e-empty-0", "tetris-e2e-empty-1"];
const PODS: usize = 4;

#[test]
fn pods_go_where_their_model_is() {
    on_the_cluster(|| {
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            &format!("namespace/{NAMESPACE}"),
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_AGENT", "tetris-agent"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
            image("TETRIS_IMAGE_WEBHOOK", "tetris-webhook"),
        ];
        let install = Objects::rendered("overlays/placement", &images)?;
        let _install = Applied::new("the install with scaler and webhook", install)?;
        place(&images).map_err(|error| error.context(state()))
    });
}

fn place(images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    for deployment in ["tetris-scaler", "tetris-gates", "tetris-webhook"] {
        wait_for_rollout(&format!("deployment/{deployment}"))?;
    }
    let mut objects = Objects::rendered("tests/cluster/function", images)?;
    objects.0.push(config_map(NAMESPACE)?);
    add_tensors(&mut objects)?;
    let _function = Applied::new("the function", objects)?;
    let label = "tetris.dev/placement=true";
    Kubectl.run(&["label", "namespace", NAMESPACE, label])?;
    wait_for("the function to be ready", require_ready)?;
    let with_model = node_of_function()?;
    let template = Objects::rendered("tests/cluster/pods", images)?;
    let template = template.one("Pod", "holder-a");
    let mut probes = 0;
    wait_for("the operator to know of the model", || {
        probes += 1;
        let name = format!("probe-{probes}");
        create(&[pod(template, &name, Some("held"))])?;
        let pod = wait_for("an open gate", || opened(&name))?;
        let preferred = preferred(&pod);
        let (node, weight) = preferred.first().context("it prefers no node")?;
        ensure!(*node == with_model && *weight > 50, "{preferred:?}");
        Ok(())
    })?;
    let nodes = EmptyNodes::new()?;
    let tried = require_attracted(template, &with_model);
    drop(nodes);
    tried?;
    require_start_without_the_operator(template)
}

fn node_of_function() -> Result<String> {
    let label = "tetris.dev/function";
    let pods = Kubectl.json(&["get", "pods", "-n", NAMESPACE, "-l", label])?;
    Ok(text(&pods["items"][0]["spec"]["nodeName"]).to_owned())
}

fn pod(template: &Value, name: &str, profile: Option<&str>) -> Value {
    let mut pod = template.clone();
    pod["metadata"]["namespace"] = json!(NAMESPACE);
    pod["metadata"]["name"] = name.into();
    let kind = name.split('-').next();
    pod["metadata"]["labels"] = json!({"e2e": kind});
    if let Some(profile) = profile {
        pod["metadata"]["annotations"] = json!({"tetris.dev/profile": profile});
    }
    pod
}

fn create(pods: &[Value]) -> Result<()> {
    Kubectl.with_objects(&APPLY, &Objects(pods.to_vec()))
}

/// Returns the pod, once its gate is open.
fn opened(name: &str) -> Result<Value> {
    let pod = Kubectl.json(&["get", "pod", name, "-n", NAMESPACE])?;
    let gates = &pod["spec"]["schedulingGates"];
    ensure!(list(gates).is_empty(), "{gates}");
    Ok(pod)
}

/// Returns the nodes that the pod prefers, with their weights.
fn preferred(pod: &Value) -> Vec<(&str, u64)> {
    let terms =
        &pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    let terms = list(terms).iter().map(|term| {
        let node = text(&term["preference"]["matchFields"][0]["values"][0]);
        (node, term["weight"].as_u64().unwrap_or_default())
    });
    terms.collect()
}

/// Pods of the model are where it is; the others are not all there, as empty nodes are better for them.
fn require_attracted(template: &Value, with_model: &str) -> Result<()> {
    let pods = (0..PODS).flat_map(|number| {
        [("model", Some("held")), ("other", None)]
            .map(|(kind, profile)| pod(template, &format!("{kind}-{number}"), profile))
    });
    create(&pods.collect::<Vec<_>>())?;
    let nodes = |kind: &str| {
        wait_for(&format!("nodes of the pods `{kind}`"), || {
            let selector = format!("e2e={kind}");
            let pods = Kubectl.json(&["get", "pods", "-n", NAMESPACE, "-l", &selector])?;
            let names = list(&pods["items"])
                .iter()
                .map(|pod| text(&pod["spec"]["nodeName"]).to_owned());
            let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
            ensure!(names.len() == PODS, "{names:?}");
            Ok(names)
        })
    };
    let (of_model, others) = (nodes("model")?, nodes("other")?);
    ensure!(
        of_model.iter().all(|node| node == with_model),
        "pods of the model are on {of_model:?}"
    );
    let is_empty = |name: &String| EMPTY_NODES.contains(&name.as_str());
    ensure!(
        others.iter().any(is_empty),
        "other pods are on {others:?}: the scheduler would have gone there anyway"
    );
    Ok(())
}

/// The account of gates opens the gate of a pod that no operator looks at.
fn require_start_without_the_operator(template: &Value) -> Result<()> {
    let scale = ["scale", "deployment/tetris-scaler", "-n", SYSTEM];
    Kubectl.run(&[&scale[..], &["--replicas=0"]].concat())?;
    wait_for("the operator to be gone", || {
        let selector = "app.kubernetes.io/name=tetris-scaler";
        let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", selector])?;
        ensure!(list(&pods["items"]).is_empty(), "{}", pods["items"]);
        Ok(())
    })?;
    create(&[pod(template, "alone-0", Some("held"))])?;
    let gates = Kubectl.json(&["get", "pod", "alone-0", "-n", NAMESPACE])?;
    let gates = &gates["spec"]["schedulingGates"];
    ensure!(gates[0]["name"] == "tetris.dev/placement", "{gates}");
    let pod = wait_for("an open gate without the operator", || opened("alone-0"))?;
    ensure!(preferred(&pod).is_empty(), "{pod}");
    wait_for("the pod to run", || {
        let pod = Kubectl.json(&["get", "pod", "alone-0", "-n", NAMESPACE])?;
        ensure!(pod["status"]["phase"] == "Running", "{}", pod["status"]);
        Ok(())
    })
}

/// Nodes without a kubelet and with nothing on them, until this value is dropped. Kubernetes gives up such nodes after 40 s.
struct EmptyNodes;

impl EmptyNodes {
    fn new() -> Result<Self> {
        let this = Self;
        let room = json!({"cpu": "32", "memory": "64Gi", "pods": "110"});
        let ready =
            json!([{"type": "Ready", "status": "True", "reason": "Test", "message": "no kubelet"}]);
        for name in EMPTY_NODES {
            let labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"});
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": labels},
            });
            Kubectl.with_objects(&APPLY, &Objects(vec![node]))?;
            let status =
                json!({"status": {"capacity": room, "allocatable": room, "conditions": ready}});
            let patch = [
                "--subresource=status",
                "--type=merge",
                "-p",
                &status.to_string(),
            ];
            Kubectl.run(&[&["patch", "node", name][..], &patch].concat())?;
            // Until the controller finds the node ready.
            wait_for("a node without taints", || {
                let node = Kubectl.json(&["get", "node", name])?;
                ensure!(list(&node["spec"]["taints"]).is_empty(), "{node}");
                Ok(())
            })?;
        }
        Ok(this)
    }
}

impl Drop for EmptyNodes {
    fn drop(&mut self) {
        for name in EMPTY_NODES {
            let _there_is_none = Kubectl.run(&["delete", "node", name, "--ignore-not-found"]);
            // No one else ends the pods of a node that has no kubelet.
            let field = format!("--field-selector=spec.nodeName={name}");
            let now = ["--force", "--grace-period=0", "--ignore-not-found"];
            for namespace in [NAMESPACE, SYSTEM] {
                let what = ["delete", "pods", "-n", namespace, &field];
                let _gone = Kubectl.run(&[&what[..], &now].concat());
            }
        }
    }
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "nodes", "-o", "wide"],
        &["get", "events", "-n", NAMESPACE],
        &[
            "logs",
            "-n",
            SYSTEM,
            "deployment/tetris-scaler",
            "--tail=50",
        ],
    ])
}
