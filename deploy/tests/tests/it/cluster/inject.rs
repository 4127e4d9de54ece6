//! Pods of an image that has never heard of Tetris share a model by a label alone, each with a
//! module path from another place.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, StoreUse, get, wait_for};
use tetris_deploy_tests::model;
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    APPLY, Applied, SYSTEM, config_map, image, look_at, on_the_cluster, require_absent,
    wait_for_daemons, wait_for_rollout,
};
use crate::cluster::sharing::a_daemon;

/// Namespace of the pods, and so the name of their store.
const PODS: &str = "tetris-inject";
const PORT: u16 = 9460;
/// The image of the pods.
const IMAGE: &str = "TETRIS_IMAGE_PYTHON";

/// A program as people write it.
const PROGRAM: &str = r#"
import time
try:
    from safetensors.torch import load_file
except ImportError:
    from safetensors.numpy import load_file
weights = load_file("/model/model.safetensors")
print(sum(float(weight.sum()) for weight in weights.values()), flush=True)
time.sleep(3600)
"#;

#[test]
fn a_label_alone_lets_pods_of_a_stock_image_share_a_model() {
    on_the_cluster(|| {
        let Ok(python) = std::env::var(IMAGE) else {
            skipped(&format!("{IMAGE} names no image"));
            return Ok(());
        };
        install_and_try(&python)
    });
}

fn install_and_try(python: &str) -> Result<()> {
    require_absent(&[
        "csi.tetris.dev",
        "namespace/tetris-system",
        "namespace/tetris-inject",
    ])?;
    let images = [
        image("TETRIS_IMAGE_NODE", "tetris-node"),
        image("TETRIS_IMAGE_WEBHOOK", "tetris-webhook"),
    ];
    let install = Objects::rendered("tests/cluster/webhook", &images)?;
    let _install = Applied::new("the install", install)?;
    inject_and_share(python).map_err(|error| error.context(state()))
}

fn inject_and_share(python: &str) -> Result<()> {
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-webhook")?;
    let (daemon, node) = wait_for("a ready daemon", || a_daemon(None))?;
    let pods = apply_pods(python, &node)?;
    wait_for("all pods to hold the model", || require_shared(&daemon))?;
    for (pod, expected) in [
        ("literal", "/run/tetris/python:/app"),
        ("referring", "/run/tetris/python:/app-of-config"),
        ("including", "/run/tetris/python:/app-of-all"),
    ] {
        require_injected(pod)?;
        let path = in_pod(pod, "import os; print(os.environ['PYTHONPATH'])")?;
        ensure!(path.trim() == expected, "{pod}: {path}");
        let entries = in_pod(
            pod,
            "import sys; print([p for p in sys.path if 'tetris' in p])",
        )?;
        ensure!(entries.trim() == "[]", "{pod}: {entries}");
    }
    pods.remove()
}

/// The doctor in the pod reports how the package came, and from which daemon.
fn require_injected(pod: &str) -> Result<()> {
    let args = [
        "exec", "-n", PODS, pod, "--", "python3", "-m", "tetris", "--format", "json",
    ];
    let output = Kubectl.output(&args)?;
    let diagnosis: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let of_interpreter = |section: &&Value| section["name"] == "interpreter";
    let section = list(&diagnosis["sections"]).iter().find(of_interpreter);
    let checks = list(&section.context("no section of the interpreter")?["checks"]);
    let check = |name: &str| checks.iter().find(|check| check["name"] == name);
    let package = check("package").context("no check of the package")?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(
        package["status"] == "ok" && package["facts"]["daemon"] == version,
        "{pod}: {package}"
    );
    let patch = check("patch").context("no check of the patch")?;
    ensure!(patch["facts"]["occasion"] == "injection", "{pod}: {patch}");
    Ok(())
}

fn in_pod(pod: &str, program: &str) -> Result<String> {
    Kubectl.run(&["exec", "-n", PODS, pod, "--", "python3", "-c", program])
}

/// Three pods on one node, each with a file and its own module path.
fn apply_pods(python: &str, node: &str) -> Result<Applied> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": PODS, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let paths = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "paths", "namespace": PODS},
        "data": {"python": "/app-of-config"}});
    let environment = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "environment", "namespace": PODS},
        "data": {"PYTHONPATH": "/app-of-all"}});
    let reference = json!({"configMapKeyRef": {"name": "paths", "key": "python"}});
    let literal = json!({"name": "PYTHONPATH", "value": "/app"});
    let referring = json!({"name": "PYTHONPATH", "valueFrom": reference});
    let mut including = pod("including", python, node, &[]);
    including["spec"]["containers"][0]["envFrom"] =
        json!([{"configMapRef": {"name": "environment"}}]);
    let pods = vec![
        pod("literal", python, node, &[literal]),
        pod("referring", python, node, &[referring]),
        including,
    ];
    let others = vec![namespace, config_map(PODS)?, paths, environment];
    let applied = Applied {
        what: "the pods",
        objects: Objects([others.clone(), pods.clone()].concat()),
    };
    Kubectl.with_objects(&APPLY, &Objects(others))?;
    let account = ["get", "serviceaccount", "-n", PODS, "default"];
    wait_for("the namespace's account", || Kubectl.run(&account))?;
    Kubectl.with_objects(&APPLY, &Objects(pods))?;
    Ok(applied)
}

fn pod(name: &str, image: &str, node: &str, module_path: &[Value]) -> Value {
    // The model is small, for the ConfigMap.
    let all = json!({"name": "TETRIS_MIN_SHARED_BYTES", "value": "0"});
    let env = [&[all], module_path].concat();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": PODS, "labels": {"tetris.dev/inject": "python"}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "server",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", PROGRAM],
                "env": env,
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "model", "mountPath": "/model", "readOnly": true}],
            }],
            "volumes": [{"name": "model", "configMap": {"name": "model"}}],
        },
    })
}

/// That there is one copy: as many objects as the model has tensors, each held by all pods.
fn require_shared(daemon: &str) -> Result<()> {
    for pod in list(&Kubectl.json(&["get", "pods", "-n", PODS])?["items"]) {
        let phase = text(&pod["status"]["phase"]);
        ensure!(phase != "Failed", "{}: {phase}", pod["metadata"]["name"]);
    }
    let status = get(Kubectl, SYSTEM, daemon, PORT, "/status")?;
    let used = StoreUse::of(&status, PODS)?;
    let objects = model::TENSORS as u64;
    let expected = StoreUse {
        held_objects: objects,
        objects,
        holders: objects * 3,
    };
    ensure!(used == expected, "expected {expected:?}, found {used:?}");
    Ok(())
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", PODS],
        &["get", "events", "-n", SYSTEM],
        &[
            "logs",
            "-n",
            SYSTEM,
            "daemonset/tetris-node",
            "-c",
            "volumes",
            "--tail=30",
        ],
        &[
            "logs",
            "-n",
            SYSTEM,
            "daemonset/tetris-node",
            "-c",
            "broker",
            "--tail=30",
        ],
        &[
            "logs",
            "-n",
            SYSTEM,
            "deployment/tetris-webhook",
            "--tail=30",
        ],
        &["logs", "-n", PODS, "literal", "--tail=30"],
        &["logs", "-n", PODS, "referring", "--tail=30"],
        &["logs", "-n", PODS, "including", "--tail=30"],
    ])
}
