//! A function at zero behind the gateway: its first request is answered, a step of load starts more
//! instances, no request fails, and at the end it is at zero again.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_rollout,
};

const NAMESPACE: &str = "tetris-e2e-gateway";
const IMAGE: &str = "TETRIS_IMAGE_PYTHON";
/// Asks at fixed rates, each for a time, and prints the number of answers by status and the slowest
/// first answer, as JSON.
const CLIENT: &str = r#"
import collections, http.client, json, sys, threading, time
statuses, firsts, lock = collections.Counter(), [], threading.Lock()
local = threading.local()
def ask(first):
    began = time.monotonic()
    try:
        connection = getattr(local, "connection", None) or http.client.HTTPConnection("tetris-gateway.tetris-system", timeout=120)
        local.connection = connection
        connection.request("POST", "/functions/tetris-e2e-gateway/served/infer", b"{}")
        response = connection.getresponse()
        response.read()
        status = str(response.status)
    except OSError as error:
        local.connection = None
        status = type(error).__name__
    with lock:
        statuses[status] += 1
        if first:
            firsts.append(round(time.monotonic() - began, 3))
def worker(due, first):
    for at in due:
        time.sleep(max(0, at - time.monotonic()))
        ask(first)
for step in sys.argv[1:]:
    rate, seconds = map(int, step.split(":"))
    begin = time.monotonic()
    due = [begin + number / rate for number in range(max(1, rate * seconds))]
    count = min(64, len(due))
    threads = [threading.Thread(target=worker, args=(due[at::count], len(due) == 1)) for at in range(count)]
    [one.start() for one in threads]
    [one.join() for one in threads]
print(json.dumps({"statuses": statuses, "first_seconds": firsts}))
"#;

#[test]
fn a_function_serves_from_zero_and_goes_back() {
    on_the_cluster(|| {
        let Ok(python) = std::env::var(IMAGE) else {
            skipped(&format!("{IMAGE} names no image"));
            return Ok(());
        };
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            "namespace/tetris-e2e-gateway",
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
            image("TETRIS_IMAGE_GATEWAY", "tetris-gateway"),
        ];
        let install = Objects::rendered("tests/cluster/gateway", &images)?;
        let _install = Applied::new("the install with the gateway", install)?;
        follow(&python).map_err(|error| error.context(state()))
    });
}

fn follow(python: &str) -> Result<()> {
    for resource in ["inferencefunctions", "modelprofiles"] {
        let crd = format!("crd/{resource}.tetris.dev");
        Kubectl.run(&["wait", &crd, "--for=condition=Established", "--timeout=60s"])?;
    }
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    wait_for_rollout("deployment/tetris-gateway")?;
    let function = Applied::new("the function", served(python)?)?;
    wait_for("the gateways to be known, and no load", || {
        let function = Kubectl.json(&["get", "inferencefunction/served", "-n", NAMESPACE])?;
        let mut conditions = list(&function["status"]["conditions"]).iter();
        let known = conditions.find(|one| one["type"] == "LoadKnown");
        ensure!(
            known.is_some_and(|one| one["status"] == "True"),
            "{}",
            function["status"]
        );
        Ok(())
    })?;
    ensure!(
        replicas()? == 0,
        "a function without requests has instances"
    );
    let first = client("first", python, &["1:1"])?;
    told(&format!("from zero: {first}"));
    ensure!(first["statuses"] == json!({"200": 1}), "{first}");
    start_client("step", python, &["20:10", "200:40"])?;
    wait_for("instances for 200 requests/s", || {
        let found = replicas()?;
        ensure!(found >= 3, "{found}");
        Ok(())
    })?;
    let step = result_of("step")?;
    told(&format!("a step of load: {step}"));
    ensure!(
        step["statuses"] == json!({"200": 20 * 10 + 200 * 40}),
        "{step}"
    );
    wait_for("no instances", || {
        let found = replicas()?;
        ensure!(found == 0, "{found}");
        Ok(())
    })?;
    function.remove()
}

/// Says a figure, also when the test passes.
fn told(what: &str) {
    let _closed = writeln!(std::io::stderr(), "{what}");
}

/// The function, with its servers' image.
fn served(image: &str) -> Result<Objects> {
    let mut objects = Objects::parse(include_str!("../../../cluster/served.yaml"))?;
    let mut all = objects.0.iter_mut();
    let function = all.find(|object| object["kind"] == "InferenceFunction");
    let spec = &mut function.context("no function")?["spec"]["template"]["spec"];
    spec["containers"][0]["image"] = image.into();
    Ok(objects)
}

fn replicas() -> Result<u64> {
    let found = Kubectl.json(&["get", "deployments", "-n", NAMESPACE])?;
    let each = list(&found["items"]).iter();
    let each = each.map(|one| one["spec"]["replicas"].as_u64().unwrap_or_default());
    Ok(each.sum())
}

fn client(name: &str, image: &str, steps: &[&str]) -> Result<Value> {
    start_client(name, image, steps)?;
    result_of(name)
}

fn start_client(name: &str, image: &str, steps: &[&str]) -> Result<()> {
    let command = [&["python3", "-c", CLIENT][..], steps].concat();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "client", "image": image, "imagePullPolicy": "IfNotPresent", "command": command,
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    Kubectl.with_objects(&["apply", "--server-side"], &Objects(vec![pod]))
}

fn result_of(name: &str) -> Result<Value> {
    let pod = format!("pod/{name}");
    wait_for("the client to end", || {
        let pod = Kubectl.json(&["get", &pod, "-n", NAMESPACE])?;
        let phase = text(&pod["status"]["phase"]);
        ensure!(phase == "Succeeded" || phase == "Failed", "{phase}");
        Ok(())
    })?;
    let logs = Kubectl.run(&["logs", &pod, "-n", NAMESPACE])?;
    serde_json::from_str(logs.trim()).with_context(|| format!("the client said {logs}"))
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "inferencefunctions", "-n", NAMESPACE, "-o", "yaml"],
        &["get", "events", "-n", NAMESPACE],
        &[
            "logs",
            "-n",
            SYSTEM,
            "deployment/tetris-scaler",
            "--tail=50",
        ],
        &[
            "logs",
            "-n",
            SYSTEM,
            "deployment/tetris-gateway",
            "--tail=50",
        ],
    ])
}
