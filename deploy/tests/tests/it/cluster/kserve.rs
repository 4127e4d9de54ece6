//! Pods as KServe's webhook makes them of the sample: one whose model its node has, and one whose initializer pulls it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::Kubectl;
use tetris_deploy_tests::objects::{Objects, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    Applied, image, on_the_cluster, require_absent, wait_for_daemons, wait_for_definitions,
    wait_for_rollout,
};
use crate::cluster::models::{
    MODEL, NAMESPACE, PYTHON, binding, digest, hub, last_line, models, namespace, state,
};

/// The place of KServe's models, and its volume.
const PLACE: &str = "/mnt/models";
const VOLUME: &str = "kserve-provision-location";

/// Reads the model's file, and loads it as people write it. Prints the digest, and `mapped` if the weights are the store's.
const SERVER: &str = "
import hashlib, time
from safetensors.numpy import load_file
path = '/mnt/models/model.safetensors'
with open(path, 'rb') as file:
    digest = hashlib.file_digest(file, 'sha256').hexdigest()
weights = load_file(path)
with open('/proc/self/maps') as maps:
    mapped = any('/objects-v1/' in line for line in maps)
print(digest, 'mapped' if mapped else 'private', flush=True)
time.sleep(3600)
";

#[test]
fn services_of_kserve_get_the_model_of_their_node_and_others_from_its_store() {
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
            image("TETRIS_IMAGE_WEBHOOK", "tetris-webhook"),
        ];
        let install = Objects::rendered("tests/cluster/kserve", &images)?;
        let sample = Objects::rendered("samples/kserve", &images)?;
        let _install = Applied::new("the install with scaler and webhook", install)?;
        serve(&sample, &python).map_err(|error| error.context(state()))
    });
}

fn serve(sample: &Objects, python: &str) -> Result<()> {
    wait_for_definitions()?;
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    wait_for_rollout("deployment/tetris-webhook")?;
    let _namespace = namespace()?;
    let _hub = hub(python)?;
    let _binding = Applied::new("the right to write", binding())?;
    let _models = Applied::new("the models", models())?;
    let expected = digest()?;
    for (name, source) in [
        ("kept", format!("tetris://{MODEL}")),
        ("pulled", "hf://org/m".to_owned()),
    ] {
        let service = Applied::new(
            name,
            Objects(vec![predictor(sample, name, &source, python)?]),
        )?;
        let pod = format!("pod/{name}");
        let ready = "--for=condition=Ready";
        Kubectl.run(&["wait", "-n", NAMESPACE, &pod, ready, "--timeout=180s"])?;
        let line = last_line(name)?;
        ensure!(
            line == format!("{expected} mapped"),
            "{name}: {line}, expected {expected} mapped"
        );
        let volume = volume(name)?;
        let is_shown = volume["csi"]["volumeAttributes"]["model"] == MODEL;
        ensure!(is_shown == (name == "kept"), "{name}: {volume}");
        service.remove()?;
    }
    Ok(())
}

/// The pod that KServe's webhook makes for a service of the sample with this source.
fn predictor(sample: &Objects, name: &str, source: &str, python: &str) -> Result<Value> {
    let object = |kind: &str| {
        let mut objects = sample.0.iter();
        let object = objects.find(|object| object["kind"] == kind);
        object.with_context(|| format!("the sample has no {kind}"))
    };
    let runtime = &object("ServingRuntime")?["spec"];
    let mut initializer = object("ClusterStorageContainer")?["spec"]["container"].clone();
    initializer["args"] = json!([source, PLACE]);
    initializer["volumeMounts"] = json!([{"name": VOLUME, "mountPath": PLACE}]);
    // What KServe takes from the Secrets of the service's account.
    let hub = format!("http://hub.{NAMESPACE}.svc.cluster.local:8000");
    initializer["env"] = json!([
        {"name": "HF_ENDPOINT", "value": hub},
        {"name": "HF_HOME", "value": "/nowhere"},
    ]);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": runtime["labels"],
            "annotations": runtime["annotations"],
        },
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "initContainers": [initializer],
            "containers": [{
                "name": "kserve-container",
                "image": python,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-u", "-c", SERVER],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": VOLUME, "mountPath": PLACE, "readOnly": true}],
            }],
            "volumes": [{"name": VOLUME, "emptyDir": {}}],
        },
    }))
}

/// The volume of KServe's models in the pod that was admitted.
fn volume(pod: &str) -> Result<Value> {
    let pod = Kubectl.json(&["get", "pod", "-n", NAMESPACE, pod])?;
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut named = volumes.filter(|volume| text(&volume["name"]) == VOLUME);
    named.next().cloned().context("no volume of KServe's")
}
