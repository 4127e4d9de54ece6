//! Models that nodes have: pods that wait for one and read it as a folder, whatever they do with its pods meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_definitions, wait_for_rollout,
};
use crate::cluster::pull::hub_in;

pub(super) const NAMESPACE: &str = "tetris-models";
/// The image of the hub and of the readers.
pub(super) const PYTHON: &str = "TETRIS_IMAGE_PYTHON";
pub(super) const MODEL: &str = "m";

/// Reads the model through the mount, without any package, over and over. Prints the digest of its weights each time.
const READER: &str = "
import hashlib, os, time
path = '/models/m/model.safetensors'
while True:
    with open(path, 'rb') as file:
        digest = hashlib.file_digest(file, 'sha256').hexdigest()
    print(digest, os.path.getsize(path), sorted(os.listdir('/models/m')), flush=True)
    time.sleep(1)
";

#[test]
fn pods_wait_for_a_model_and_read_it_as_a_folder() {
    on_the_cluster(|| {
        let Ok(python) = std::env::var(PYTHON) else {
            skipped(&format!("{PYTHON} names no image"));
            return Ok(());
        };
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            "namespace/tetris-models",
            "models.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_AGENT", "tetris-agent"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
        ];
        let install = Objects::rendered("tests/cluster/scaler", &images)?;
        let _install = Applied::new("the install with the scaler", install)?;
        bring(&python).map_err(|error| error.context(state()))
    });
}

fn bring(python: &str) -> Result<()> {
    wait_for_definitions()?;
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    let _namespace = namespace()?;
    let _hub = hub(python)?;
    let ready = "--for=condition=Ready";

    // Pods that come first wait, and the status has the command by which a namespace lets the operator write.
    let first = Applied::new("the first reader", reader("first", "default", python))?;
    let models = Applied::new("the models", models())?;
    wait_for("the missing right to be said", || {
        let message = condition(MODEL)?["message"].clone();
        let has_command = text(&message).contains("--clusterrole=tetris-scaler-models");
        ensure!(has_command, "{message}");
        Ok(())
    })?;
    let _binding = Applied::new("the right to write", binding())?;
    let model = format!("model/{MODEL}");
    let present = ["wait", "-n", NAMESPACE, &model, ready, "--timeout=120s"];
    Kubectl.run(&present)?;
    let pod = |name: &str| format!("pod/{name}");
    let runs = |name: &str| {
        let args = ["wait", "-n", NAMESPACE, &pod(name), ready, "--timeout=180s"];
        Kubectl.run(&args).map(drop)
    };
    runs("first")?;
    let second = Applied::new("the second reader", reader("second", "default", python))?;
    runs("second")?;
    let expected = digest()?;
    for name in ["first", "second"] {
        let read = last_line(name)?;
        ensure!(
            read.starts_with(&expected),
            "{name}: {read}, expected {expected}"
        );
        let listed = read.ends_with("['config.json', 'model.safetensors']");
        ensure!(listed, "{name}: {read}");
    }
    require_status()?;
    require_failure()?;
    require_served_without_the_operator(python)?;
    require_other_account_waits(python)?;

    // Without the model, those that have it go on, and its pod ends with the last of them.
    models.remove()?;
    wait_for("the DaemonSets to go", || {
        let servers = objects("daemonsets")?;
        ensure!(list(&servers["items"]).is_empty(), "{servers}");
        Ok(())
    })?;
    let before = line_count("second")?;
    wait_for("the second reader to go on", || {
        ensure!(line_count("second")? > before + 2, "no new line");
        Ok(())
    })?;
    ensure!(keepers()? > 0, "its pod ended before the readers");
    first.remove()?;
    ensure!(keepers()? > 0, "its pod ended before the last reader");
    second.remove()?;
    wait_for("its pod to end", || {
        let keepers = keepers()?;
        ensure!(keepers == 0, "{keepers} pods keep it");
        Ok(())
    })
}

/// The namespace, once pods can be made in it.
pub(super) fn namespace() -> Result<Applied> {
    restricted_namespace(NAMESPACE)
}

/// A namespace whose pods have no rights, once they can be made in it.
pub(super) fn restricted_namespace(name: &str) -> Result<Applied> {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    });
    let applied = Applied::new("the namespace", Objects(vec![namespace]))?;
    let account = ["get", "serviceaccount", "-n", name, "default"];
    wait_for("the namespace's account", || Kubectl.run(&account))?;
    Ok(applied)
}

/// A hub that answers.
pub(super) fn hub(python: &str) -> Result<Applied> {
    let applied = Applied::new("the hub", hub_in(NAMESPACE, python))?;
    let ready = "--for=condition=Ready";
    let hub = ["wait", "-n", NAMESPACE, "pod/hub", ready, "--timeout=120s"];
    Kubectl.run(&hub)?;
    Ok(applied)
}

fn require_status() -> Result<()> {
    let model = object(MODEL)?;
    let status = &model["status"];
    let (wanted, present) = (status["wanted"].as_u64(), status["present"].as_u64());
    ensure!(wanted > Some(0) && wanted == present, "{status}");
    ensure!(status["nodes"][0]["state"] == "Present", "{status}");
    let events = objects("events.events.k8s.io")?;
    let is_present = |event: &Value| {
        event["regarding"]["kind"] == "Model" && text(&event["reason"]) == "Present"
    };
    ensure!(list(&events["items"]).iter().any(is_present), "{events}");
    Ok(())
}

/// A model that its source does not have is retried, with the reason in its status.
fn require_failure() -> Result<()> {
    wait_for("the failure to be said", || {
        let ready = condition("absent")?;
        ensure!(ready["reason"] == "Failed", "{ready}");
        ensure!(text(&ready["message"]).contains("404"), "{ready}");
        Ok(())
    })
}

/// With the operator away, pods get the model.
fn require_served_without_the_operator(python: &str) -> Result<()> {
    let scale = |replicas: &str| {
        let replicas = format!("--replicas={replicas}");
        let args = ["scale", "-n", SYSTEM, "deployment/tetris-scaler", &replicas];
        Kubectl.run(&args)
    };
    scale("0")?;
    wait_for("the operator to be away", || {
        let label = "app.kubernetes.io/name=tetris-scaler";
        let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", label])?;
        ensure!(list(&pods["items"]).is_empty(), "{pods}");
        Ok(())
    })?;
    let reader = Applied::new("a reader", reader("third", "default", python))?;
    let args = [
        "wait",
        "-n",
        NAMESPACE,
        "pod/third",
        "--for=condition=Ready",
        "--timeout=120s",
    ];
    Kubectl.run(&args)?;
    let (read, expected) = (last_line("third")?, digest()?);
    ensure!(read.starts_with(&expected), "{read}, expected {expected}");
    reader.remove()?;
    scale("2")?;
    wait_for_rollout("deployment/tetris-scaler")
}

/// A pod of another service account gets no files, and no error that ends it.
fn require_other_account_waits(python: &str) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "other", "namespace": NAMESPACE}});
    let mut objects = reader("stranger", "other", python);
    objects.0.insert(0, account);
    let _stranger = Applied::new("a pod of another account", objects)?;
    std::thread::sleep(Duration::from_secs(10));
    let pod = pod("stranger")?;
    let waits = pod["status"]["phase"] == "Pending";
    ensure!(waits, "{}", pod["status"]);
    Ok(())
}

pub(super) fn models() -> Objects {
    let hub = format!("http://hub.{NAMESPACE}.svc.cluster.local:8000");
    let model = |name: &str, source: &str| {
        json!({
            "apiVersion": "tetris.dev/v1alpha1",
            "kind": "Model",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"source": source, "environment": {"HF_ENDPOINT": hub, "HF_HOME": "/nowhere"}},
        })
    };
    Objects(vec![
        model(MODEL, "hf://org/m"),
        model("absent", "hf://org/absent"),
    ])
}

pub(super) fn binding() -> Objects {
    Objects(vec![json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tetris-scaler-models", "namespace": NAMESPACE},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "tetris-scaler-models",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "tetris-scaler", "namespace": "tetris-system"}],
    })])
}

/// A pod without the package or the store, that reads the model.
fn reader(name: &str, account: &str, python: &str) -> Objects {
    Objects(vec![json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "serviceAccountName": account,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "reader",
                "image": python,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-u", "-c", READER],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "model", "mountPath": "/models/m", "readOnly": true}],
            }],
            "volumes": [{"name": "model", "csi": {
                "driver": "csi.tetris.dev",
                "readOnly": true,
                "volumeAttributes": {"content": "model", "model": MODEL},
            }}],
        },
    })])
}

/// SHA-256 of the hub's weights, from the hub itself.
pub(super) fn digest() -> Result<String> {
    let ask = "import json, urllib.request as r; \
        print(json.load(r.urlopen('http://localhost:8000/api/models/org/m'))['siblings'][1]['lfs']['sha256'])";
    let args = ["exec", "-n", NAMESPACE, "hub", "--", "python3", "-c", ask];
    Ok(Kubectl.run(&args)?.trim().to_owned())
}

pub(super) fn last_line(pod: &str) -> Result<String> {
    let mut last = String::new();
    wait_for("the pod to have read", || {
        let log = Kubectl.run(&["logs", "-n", NAMESPACE, pod])?;
        let line = log.lines().last().context("no line yet")?;
        line.clone_into(&mut last);
        Ok(())
    })?;
    Ok(last)
}

fn line_count(pod: &str) -> Result<usize> {
    Ok(Kubectl
        .run(&["logs", "-n", NAMESPACE, pod])?
        .lines()
        .count())
}

/// Number of pods that keep the model.
fn keepers() -> Result<usize> {
    let pods = objects("pods")?;
    let pods = list(&pods["items"]).iter();
    let of_model = |pod: &&Value| pod["metadata"]["labels"]["tetris.dev/model"] == MODEL;
    Ok(pods.filter(of_model).count())
}

/// The list of a kind of objects.
fn objects(kind: &str) -> Result<Value> {
    Kubectl.json(&["get", kind, "-n", NAMESPACE])
}

fn object(name: &str) -> Result<Value> {
    Kubectl.json(&["get", "model", "-n", NAMESPACE, name])
}

fn pod(name: &str) -> Result<Value> {
    Kubectl.json(&["get", "pod", "-n", NAMESPACE, name])
}

/// The condition Ready.
fn condition(name: &str) -> Result<Value> {
    let model = object(name)?;
    let conditions = list(&model["status"]["conditions"]).iter();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.next().cloned().context("no condition yet")
}

pub(super) fn state() -> String {
    look_at(&[
        &["get", "models,daemonsets,pods", "-A", "-o", "wide"],
        &["get", "models", "-A", "-o", "yaml"],
        &["describe", "pods", "-n", NAMESPACE],
        &["get", "events", "-n", NAMESPACE],
        &[
            "logs",
            "-n",
            NAMESPACE,
            "-l",
            "tetris.dev/model",
            "--tail=40",
        ],
        &[
            "logs",
            "-n",
            "tetris-system",
            "-l",
            "app.kubernetes.io/name=tetris-scaler",
            "--tail=40",
        ],
        &[
            "logs",
            "-n",
            "tetris-system",
            "-l",
            "app.kubernetes.io/name=tetris-node",
            "--all-containers",
            "--tail=60",
        ],
    ])
}
