//! One command from a model to a served function: measured by the operator, answered through the gateway; and its errors
//! where that cannot be.

#![expect(clippy::print_stdout, reason = "the measured times")]

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::{Objects, list};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_definitions, wait_for_rollout,
};
use crate::cluster::models::{PYTHON, restricted_namespace};
use crate::cluster::pull::hub_in;

const NAMESPACE: &str = "tetris-deploy";
const INSTANCE: &str = "TETRIS_IMAGE_INSTANCE";

/// Asks once through the gateway, with a token, and prints the status, the shape of the result and the seconds.
const CLIENT: &str = r#"
import http.client, json, sys, time
began = time.monotonic()
body = json.dumps({"inputs": [{"name": "x", "shape": [1, 256], "datatype": "FP32", "data": [1.0] * 256}]})
connection = http.client.HTTPConnection("tetris-gateway.tetris-system", timeout=60)
connection.request("POST", "/functions/tetris-deploy/embed/v2/models/embed/infer", body, {"Authorization": f"Bearer {sys.argv[1]}"})
answer = connection.getresponse()
outputs = json.loads(answer.read()).get("outputs", [])
print(json.dumps({"status": answer.status, "shape": [one["shape"] for one in outputs], "seconds": time.monotonic() - began}))
"#;

#[test]
fn a_model_is_deployed_in_one_command() {
    on_the_cluster(|| {
        let (Ok(python), Ok(instance)) = (std::env::var(PYTHON), std::env::var(INSTANCE)) else {
            skipped(&format!("{PYTHON} and {INSTANCE} name no images"));
            return Ok(());
        };
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            "namespace/tetris-deploy",
            "models.tetris.dev",
            "inferencefunctions.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_AGENT", "tetris-agent"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
            image("TETRIS_IMAGE_GATEWAY", "tetris-gateway"),
            ("tetris-instance", instance),
        ];
        let install = Objects::rendered("tests/cluster/gateway", &images)?;
        let _install = Applied::new("the install with the gateway", install)?;
        deploy(&python).map_err(|error| error.context(state()))
    });
}

fn deploy(python: &str) -> Result<()> {
    wait_for_definitions()?;
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    wait_for_rollout("deployment/tetris-gateway")?;
    let _namespace = restricted_namespace(NAMESPACE)?;
    let _hub = Applied::new("the hub and the client", pods(python))?;
    let ready = [
        "wait",
        "-n",
        NAMESPACE,
        "pod",
        "--all",
        "--for=condition=Ready",
        "--timeout=120s",
    ];
    Kubectl.run(&ready)?;

    // Before anything is applied, a wrong source is an error.
    let wrong = scaler(&["/models/bert", "--name=embed"])?;
    ensure!(
        !wrong.status.success() && said(&wrong).contains("tetris push"),
        "{}",
        said(&wrong)
    );

    let deployed = scaler(&[
        "hf://org/encoder",
        "--name=embed",
        "--profiling-time=1m",
        "--format=json",
    ])?;
    ensure!(deployed.status.success(), "{}", said(&deployed));
    let report: Value = serde_json::from_slice(&deployed.stdout)?;
    ensure!(report["configurations"].as_u64() > Some(1), "{report}");
    println!("{report}");
    let token = [
        "create",
        "token",
        "default",
        "-n",
        NAMESPACE,
        "--audience=tetris-gateway",
    ];
    let token = Kubectl.run(&token)?;
    let asked = [
        "exec",
        "-n",
        NAMESPACE,
        "client",
        "--",
        "python3",
        "-c",
        CLIENT,
        token.trim(),
    ];
    let answer: Value = serde_json::from_str(&Kubectl.run(&asked)?)?;
    ensure!(
        answer["status"] == 200 && answer["shape"] == json!([[1, 1024]]),
        "{answer}"
    );
    println!("the first request from zero: {answer}");
    require_measured()?;

    // The same again changes nothing; another source needs the word for it.
    let again = scaler(&["hf://org/encoder", "--name=embed", "--profiling-time=1m"])?;
    ensure!(again.status.success(), "{}", said(&again));
    let other = scaler(&["hf://org/m", "--name=embed"])?;
    let refused = !other.status.success() && said(&other).contains("--replace");
    ensure!(refused, "{}", said(&other));

    // An equal model of another name is not measured again.
    let twin = scaler(&["hf://org/encoder", "--name=twin", "--profiling-time=1m"])?;
    ensure!(twin.status.success(), "{}", said(&twin));
    let profiled = condition("twin", "Profiled")?;
    ensure!(profiled["status"] == "True", "{profiled}");
    ensure!(
        !said(&twin).contains("the Job is being made"),
        "{}",
        said(&twin)
    );

    let unserved = scaler(&["hf://org/unserved", "--name=chat"])?;
    let message = said(&unserved);
    ensure!(
        !unserved.status.success() && message.contains("NoEngine"),
        "{message}"
    );
    ensure!(message.contains("LlamaForCausalLM"), "{message}");
    // Their instances and measurements would share the processors.
    delete(&["embed", "twin", "chat"])?;
    require_tight_objective()?;
    require_restart_of_a_killed_job()?;
    delete(&["fast", "again"])
}

/// Deletes functions with their models.
fn delete(names: &[&str]) -> Result<()> {
    let arguments = ["delete", "inferencefunction,model", "-n", NAMESPACE];
    Kubectl.run(&[&arguments[..], names].concat()).map(drop)
}

/// The profile is a measured one, and its Job is gone.
fn require_measured() -> Result<()> {
    let profile = Kubectl.json(&["get", "modelprofile", "-n", NAMESPACE, "embed"])?;
    let labels = &profile["metadata"]["labels"];
    ensure!(labels.get("tetris.dev/assumed").is_none(), "{labels}");
    let configurations = list(&profile["spec"]["configurations"]);
    ensure!(
        configurations
            .iter()
            .any(|entry| entry["batch"].as_u64() > Some(1)),
        "{profile}"
    );
    ensure!(
        !list(&profile["spec"]["objects"]).is_empty(),
        "no tensors were seen: {profile}"
    );
    wait_for("the Job to go", || {
        let jobs = Kubectl.json(&["get", "jobs", "-n", NAMESPACE])?;
        ensure!(list(&jobs["items"]).is_empty(), "{jobs}");
        Ok(())
    })
}

/// An objective below all latencies ends with the best that can be had.
fn require_tight_objective() -> Result<()> {
    let tight = [
        "hf://org/encoder",
        "--name=fast",
        "--slo=1ms",
        "--percentile=99",
        "--profiling-time=1m",
        "--timeout=240s",
    ];
    let fast = deploy_command(&tight).output()?;
    let message = said(&fast);
    ensure!(!fast.status.success(), "{message}");
    ensure!(
        message.contains("SloTooTight") || message.contains("NoConfiguration"),
        "{message}"
    );
    Ok(())
}

/// A deleted Job is made again.
fn require_restart_of_a_killed_job() -> Result<()> {
    let arguments = [
        "hf://org/encoder",
        "--name=again",
        "--profiling-time=1m",
        "--arg=--queue=99",
    ];
    let mut command = deploy_command(&[&arguments[..], &["--slo=300ms"]].concat());
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let label = "tetris.dev/profiling=again";
    wait_for("the Job's pod to run", || {
        let pods = Kubectl.json(&["get", "pods", "-n", NAMESPACE, "-l", label])?;
        let phase = list(&pods["items"])
            .first()
            .map(|pod| pod["status"]["phase"].clone());
        ensure!(phase == Some("Running".into()), "{pods}");
        Ok(())
    })?;
    let kill = [
        "delete",
        "jobs",
        "-n",
        NAMESPACE,
        "-l",
        label,
        "--wait=false",
    ];
    Kubectl.run(&kill)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", said(&output));
    Ok(())
}

/// Runs `tetris-scaler deploy` with an objective of 500 ms.
fn scaler(arguments: &[&str]) -> Result<Output> {
    let all = [arguments, &["--slo=500ms", "--timeout=300s"]].concat();
    Ok(deploy_command(&all).output()?)
}

fn deploy_command(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let run = [
        "run",
        "--quiet",
        "--offline",
        "--locked",
        "--bin",
        "tetris-scaler",
        "--",
        "deploy",
    ];
    let endpoint = format!("--env=HF_ENDPOINT=http://hub.{NAMESPACE}.svc.cluster.local:8000");
    command
        .args(run)
        .args(["--namespace", NAMESPACE, &endpoint])
        .args(arguments)
        .current_dir(files::deploy());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn condition(function: &str, kind: &str) -> Result<Value> {
    let object = Kubectl.json(&["get", "inferencefunction", "-n", NAMESPACE, function])?;
    let conditions = list(&object["status"]["conditions"]).iter();
    let mut conditions = conditions.filter(|condition| condition["type"] == kind);
    conditions.next().cloned().context("no such condition")
}

/// The hub, and a pod of the namespace that asks.
fn pods(python: &str) -> Objects {
    let mut objects = hub_in(NAMESPACE, python);
    let mut client = objects.0[0].clone();
    client["metadata"]["name"] = "client".into();
    client["metadata"]["labels"] = json!({"app": "client"});
    let container = &mut client["spec"]["containers"][0];
    container["name"] = "client".into();
    container["command"] = json!(["python3", "-c", "import time; time.sleep(3600)"]);
    if let Some(fields) = container.as_object_mut() {
        fields.remove("readinessProbe");
    }
    objects.0.push(client);
    objects
}

fn state() -> String {
    look_at(&[
        &[
            "get",
            "inferencefunctions,modelprofiles,models,jobs,pods",
            "-n",
            NAMESPACE,
        ],
        &["describe", "pods", "-n", NAMESPACE],
        &[
            "logs",
            "-n",
            SYSTEM,
            "-l",
            "app.kubernetes.io/name=tetris-scaler",
            "--tail=40",
        ],
    ])
}
