//! A pod pulls a model into the store of its namespace, which it can only read.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    APPLY, Applied, image, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::sharing::state;

/// Namespace of the pods, and so the name of their store.
const PODS: &str = "tetris-pull";
/// The image of the hub.
const IMAGE: &str = "TETRIS_IMAGE_PYTHON";
const HUB: &str = include_str!("hub.py");
/// Bytes of the repository's weights.
const MODEL: u64 = 48_000_000;

#[test]
fn a_pod_pulls_a_model_that_other_pods_then_know() {
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
        "namespace/tetris-pull",
    ])?;
    let images = [
        image("TETRIS_IMAGE_NODE", "tetris-node"),
        image("TETRIS_IMAGE_AGENT", "tetris-agent"),
    ];
    // With its defaults: nothing expires between two pulls.
    let install = Objects::rendered("overlays/node", &images)?;
    let _install = Applied::new("the install", install)?;
    pull_three_times(python, &images).map_err(|error| error.context(state()))
}

fn pull_three_times(python: &str, images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": PODS,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    });
    let _namespace = Applied::new("the namespace", Objects(vec![namespace]))?;
    let account = |name| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": PODS}});
    let _hub = Applied::new("the hub", hub_in(PODS, python))?;
    let _other = Applied::new("an account", Objects(vec![account("other")]))?;
    let account = ["get", "serviceaccount", "-n", PODS, "default"];
    wait_for("the namespace's account", || Kubectl.run(&account))?;
    let ready = [
        "wait",
        "-n",
        PODS,
        "pod/hub",
        "--for=condition=Ready",
        "--timeout=120s",
    ];
    Kubectl.run(&ready)?;

    let pull = |name: &str, account: &str| pulled(name, account, images);
    let first = pull("first", "default")?;
    let fetched = first["bytes_fetched"].as_u64();
    ensure!(fetched.is_some_and(|bytes| bytes > MODEL), "{first}");
    ensure!(known_by(&first) == ["reading", "reading"], "{first}");
    // Pods of the same account take the word of the first for versions; the digest is proved for all.
    let again = pull("again", "default")?;
    ensure!(known_by(&again) == ["version", "sha256"], "{again}");
    ensure!(
        again["bytes_fetched"] == 0 && again["requests"] == 1,
        "{again}"
    );
    let other = pull("other", "other")?;
    ensure!(known_by(&other) == ["reading", "sha256"], "{other}");
    let fetched = other["bytes_fetched"].as_u64();
    ensure!(fetched.is_some_and(|bytes| bytes < 100_000), "{other}");
    Ok(())
}

fn known_by(report: &Value) -> Vec<&str> {
    let files = report["files"].as_array();
    let files = files.into_iter().flatten();
    files.map(|file| text(&file["known_by"])).collect()
}

/// Runs the sample's Job under another name, and returns its report.
fn pulled(name: &str, account: &str, images: &[(&str, String)]) -> Result<Value> {
    let mut sample = Objects::rendered("samples/pull", images)?;
    for job in &mut sample.0 {
        job["metadata"]["name"] = name.into();
        job["metadata"]["namespace"] = PODS.into();
        let pod = &mut job["spec"]["template"]["spec"];
        pod["serviceAccountName"] = account.into();
        let container = &mut pod["containers"][0];
        let args = container["args"].as_array_mut().context("arguments")?;
        args.pop();
        args.push("hf://org/m".into());
        container["env"] = json!([
            {"name": "HF_ENDPOINT", "value": format!("http://hub.{PODS}.svc.cluster.local:8000")},
            {"name": "HF_HOME", "value": "/nowhere"},
        ]);
    }
    Kubectl.with_objects(&APPLY, &sample)?;
    let job = format!("job/{name}");
    let log = || Kubectl.run(&["logs", "-n", PODS, &job]).unwrap_or_default();
    let done = [
        "wait",
        "-n",
        PODS,
        &job,
        "--for=condition=Complete",
        "--timeout=180s",
    ];
    Kubectl.run(&done).with_context(log)?;
    let log = log();
    let line = log.lines().find(|line| line.starts_with('{'));
    let document: Value = serde_json::from_str(line.context("no report")?)?;
    Ok(document["sources"][0].clone())
}

/// A pod with the hub, and its service.
pub fn hub_in(namespace: &str, python: &str) -> Objects {
    let metadata =
        |name: &str| json!({"name": name, "namespace": namespace, "labels": {"app": "hub"}});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata("hub"),
        "spec": {
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "hub",
                "image": python,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", HUB],
                "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata("hub"),
        "spec": {"selector": {"app": "hub"}, "ports": [{"port": 8000}]},
    });
    Objects(vec![pod, service])
}
