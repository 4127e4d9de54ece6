//! A function with a static load: a Deployment for the configuration that is best, as many replicas as the load needs, none when there
//! is no load, and nothing when the function goes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, get, wait_for};
use tetris_deploy_tests::model;
use tetris_deploy_tests::objects::{Objects, list, pairs, text};

use crate::cluster::install::{
    Applied, SYSTEM, config_map, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_definitions, wait_for_rollout,
};

pub const NAMESPACE: &str = "tetris-e2e-scaler";
const FUNCTION: &str = "held";
/// The configuration with least memory for each request.
const BEST: &str = "held-c10-b1-p1";
const PORT: u16 = 9461;

#[test]
fn instances_follow_the_load() {
    on_the_cluster(|| {
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            "namespace/tetris-e2e-scaler",
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_AGENT", "tetris-agent"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
        ];
        let install = Objects::rendered("tests/cluster/scaler", &images)?;
        let _install = Applied::new("the install with the scaler", install)?;
        follow(&images).map_err(|error| error.context(state()))
    });
}

fn follow(images: &[(&str, String)]) -> Result<()> {
    wait_for_definitions()?;
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    let mut objects = Objects::rendered("tests/cluster/function", images)?;
    objects.0.push(config_map(NAMESPACE)?);
    add_tensors(&mut objects)?;
    let function = Applied::new("the function", objects)?;
    wait_for_replicas(2)?;
    require_what_the_operator_adds()?;
    wait_for("the function to be ready", require_ready)?;
    for (load, replicas) in [(70, 4), (0, 0), (30, 2)] {
        set_load(load)?;
        wait_for_replicas(replicas)?;
    }
    wait_for("the function to be ready again", require_ready)?;
    require_preferred_nodes()?;
    wait_for("one leader", require_one_leader)?;
    let name = format!("inferencefunction/{FUNCTION}");
    Kubectl.run(&["delete", &name, "-n", NAMESPACE, "--timeout=120s"])?;
    wait_for("the Deployments to go", || {
        let left = deployments()?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })?;
    function.remove()
}

/// The profile lists the tensors of the model that the instances hold.
pub fn add_tensors(objects: &mut Objects) -> Result<()> {
    let tensors = model::objects()?;
    let tensors = tensors
        .iter()
        .map(|(id, bytes)| json!({"id": id, "bytes": bytes}));
    let tensors: Vec<Value> = tensors.collect();
    let mut all = objects.0.iter_mut();
    let profile = all.find(|object| object["kind"] == "ModelProfile");
    profile.context("no profile")?["spec"]["objects"] = tensors.into();
    Ok(())
}

fn set_load(requests_per_second: u32) -> Result<()> {
    let load = json!({"static": {"requestsPerSecond": requests_per_second}});
    patch(&json!({"load": load}))
}

/// Changes fields of the function's `spec`.
fn patch(spec: &Value) -> Result<()> {
    let patch = json!({"spec": spec}).to_string();
    let name = format!("inferencefunction/{FUNCTION}");
    let kind = "--type=merge";
    Kubectl.run(&["patch", &name, "-n", NAMESPACE, kind, "-p", &patch])?;
    Ok(())
}

/// Replicas of the function's Deployments, by name.
fn deployments() -> Result<BTreeMap<String, u64>> {
    let selector = format!("tetris.dev/function={FUNCTION}");
    let listed = Kubectl.json(&["get", "deployments", "-n", NAMESPACE, "-l", &selector])?;
    let named = list(&listed["items"]).iter().map(|deployment| {
        let name = text(&deployment["metadata"]["name"]).to_owned();
        let replicas = deployment["spec"]["replicas"].as_u64();
        (name, replicas.unwrap_or_default())
    });
    Ok(named.collect())
}

fn deployment() -> Result<Value> {
    Kubectl.json(&["get", "deployment", BEST, "-n", NAMESPACE])
}

/// Waits until the best configuration has so many replicas, and no other any.
fn wait_for_replicas(replicas: u64) -> Result<()> {
    wait_for(&format!("{replicas} replicas"), || {
        let mut counts = deployments()?;
        counts.retain(|_, replicas| *replicas > 0);
        let mut expected = BTreeMap::from([(BEST.to_owned(), replicas)]);
        expected.retain(|_, replicas| *replicas > 0);
        ensure!(
            counts == expected,
            "expected {expected:?}, found {counts:?}"
        );
        Ok(())
    })
}

fn require_what_the_operator_adds() -> Result<()> {
    let deployment = deployment()?;
    let owner = &deployment["metadata"]["ownerReferences"][0];
    ensure!(owner["kind"] == "InferenceFunction" && owner["name"] == FUNCTION);
    let template = &deployment["spec"]["template"];
    let labels = pairs(&template["metadata"]["labels"]);
    for label in [
        ("tetris.dev/function", FUNCTION),
        ("tetris.dev/configuration", "c10-b1-p1"),
    ] {
        ensure!(labels.contains(&label), "{labels:?}");
    }
    let container = &template["spec"]["containers"][0];
    for (name, value) in [
        ("TETRIS_BATCH", "1"),
        ("TETRIS_CONCURRENCY", "1"),
        ("TETRIS_CPU_MILLIS", "10"),
    ] {
        let mut env = list(&container["env"]).iter();
        let there = env.any(|found| found["name"] == name && found["value"] == value);
        ensure!(there, "no {name}={value} in {}", container["env"]);
    }
    ensure!(container["resources"]["requests"]["cpu"] == "10m");
    let mut mounts = list(&container["volumeMounts"]).iter();
    ensure!(mounts.any(|mount| mount["mountPath"] == "/run/tetris/store"));
    let mut volumes = list(&template["spec"]["volumes"]).iter();
    let store = json!({"driver": "csi.tetris.dev", "readOnly": true});
    let volume = volumes.find(|volume| volume["csi"]["driver"] == store["driver"]);
    ensure!(volume.context("no volume")?["csi"]["readOnly"] == true);
    Ok(())
}

/// Preferred nodes stay until the template changes: another preference would replace all instances.
fn require_preferred_nodes() -> Result<()> {
    let metadata = json!({"annotations": {"example.com/change": "1"}});
    patch(&json!({"template": {"metadata": metadata}}))?;
    wait_for("nodes with the tensors to be preferred", || {
        let deployment = deployment()?;
        let affinity = &deployment["spec"]["template"]["spec"]["affinity"]["nodeAffinity"];
        let preferred = list(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]);
        ensure!(!preferred.is_empty(), "{affinity}");
        Ok(())
    })
}

pub fn require_ready() -> Result<()> {
    let name = format!("inferencefunction/{FUNCTION}");
    let function = Kubectl.json(&["get", &name, "-n", NAMESPACE])?;
    let status = &function["status"];
    let mut conditions = list(&status["conditions"]).iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    ensure!(
        ready.is_some_and(|ready| ready["status"] == "True") && status["ready"] == 2,
        "{status}"
    );
    Ok(())
}

fn require_one_leader() -> Result<()> {
    let lease = Kubectl.json(&["get", "lease", "tetris-scaler", "-n", SYSTEM])?;
    let holder = text(&lease["spec"]["holderIdentity"]);
    ensure!(!holder.is_empty(), "nobody holds the lease");
    let selector = "app.kubernetes.io/name=tetris-scaler";
    let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", selector])?;
    let names = list(&pods["items"])
        .iter()
        .map(|pod| text(&pod["metadata"]["name"]));
    let mut leaders = 0.0;
    for pod in names {
        let metrics = get(Kubectl, SYSTEM, pod, PORT, "/metrics")?;
        let mut lines = metrics.lines();
        let leading = lines.find_map(|line| line.strip_prefix("tetris_scaler_leader "));
        leaders += leading.context("no tetris_scaler_leader")?.parse::<f64>()?;
    }
    ensure!((leaders - 1.0).abs() < f64::EPSILON, "{leaders} leaders");
    Ok(())
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "inferencefunctions", "-n", NAMESPACE, "-o", "yaml"],
        &["get", "deployments", "-n", NAMESPACE, "-o", "wide"],
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
