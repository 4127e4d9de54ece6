//! The extender in a real kube-scheduler: pods go where their model is, although other nodes are empty.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    APPLY, Applied, SYSTEM, config_map, image, look_at, on_the_cluster, require_absent,
    wait_for_daemons, wait_for_rollout,
};
use crate::cluster::scaling::{NAMESPACE, add_tensors, require_ready};

/// Variable that names the program of the scheduler.
const PROGRAM: &str = "TETRIS_KUBE_SCHEDULER";
/// Its name in pods: the cluster's own scheduler takes the others.
const SCHEDULER: &str = "tetris-e2e-scheduler";
const EMPTY_NODES: [&str; 2] = ["tetris-e2e-empty-0", "tetris-e2e-empty-1"];
const PODS: usize = 4;

#[test]
fn pods_go_where_their_model_is() {
    on_the_cluster(|| {
        let Some(program) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
            skipped(&format!("{PROGRAM} names no kube-scheduler"));
            return Ok(());
        };
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
        ];
        let install = Objects::rendered("overlays/extender", &images)?;
        let _install = Applied::new("the install with the extender", install)?;
        schedule(&program, &images).map_err(|error| error.context(state()))
    });
}

fn schedule(program: &Path, images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    let mut objects = Objects::rendered("tests/cluster/function", images)?;
    objects.0.push(config_map(NAMESPACE)?);
    add_tensors(&mut objects)?;
    let _function = Applied::new("the function", objects)?;
    wait_for("the function to be ready", require_ready)?;
    wait_for("all extenders to know of the model", require_known)?;
    let scheduler = Scheduler::start(program)?;
    let nodes = EmptyNodes::new()?;
    let template = Objects::rendered("tests/cluster/pods", images)?;
    let template = template.one("Pod", "holder-a");
    let tried = require_attracted(template);
    drop(nodes);
    tried.map_err(|error| error.context(scheduler.log()))
}

/// Asks each extender as the scheduler does: the node with the model has a score.
fn require_known() -> Result<()> {
    let function = Kubectl.json(&["get", "pods", "-n", NAMESPACE])?;
    let node = &function["items"][0]["spec"]["nodeName"];
    let annotations = json!({"tetris.dev/profile": "held"});
    let pod = json!({"metadata": {"namespace": NAMESPACE, "annotations": annotations}});
    let request = json!({"Pod": pod, "NodeNames": [node]});
    let file = tempfile::NamedTempFile::new()?;
    fs::write(&file, request.to_string())?;
    let file = file.path().display().to_string();
    let selector = "app.kubernetes.io/name=tetris-scaler";
    let scalers = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", selector])?;
    for scaler in list(&scalers["items"]) {
        let name = text(&scaler["metadata"]["name"]);
        let url = format!("/api/v1/namespaces/{SYSTEM}/pods/{name}:9463/proxy/prioritize");
        let said = Kubectl.run(&["create", "--raw", &url, "-f", &file])?;
        let scores: Value = serde_json::from_str(&said)?;
        let score = scores[0]["Score"].as_i64().unwrap_or_default();
        ensure!(score > 5, "{name}: {scores} for {request}");
    }
    Ok(())
}

/// Pods of the model are where it is; the others are not all there, as empty nodes are better for them.
fn require_attracted(template: &Value) -> Result<()> {
    let mut pods = Vec::new();
    for number in 0..PODS {
        for (kind, profile) in [("model", Some("held")), ("other", None)] {
            let mut pod = template.clone();
            pod["metadata"]["namespace"] = json!(NAMESPACE);
            pod["metadata"]["name"] = format!("{kind}-{number}").into();
            pod["metadata"]["labels"] = json!({"e2e": kind});
            if let Some(profile) = profile {
                pod["metadata"]["annotations"] = json!({"tetris.dev/profile": profile});
            }
            pod["spec"]["schedulerName"] = json!(SCHEDULER);
            pods.push(pod);
        }
    }
    Kubectl.with_objects(&APPLY, &Objects(pods))?;
    let nodes = |kind: &str| {
        wait_for(&format!("nodes of the pods `{kind}`"), || {
            let selector = format!("e2e={kind}");
            let found = Kubectl.json(&["get", "pods", "-n", NAMESPACE, "-l", &selector])?;
            let names = list(&found["items"])
                .iter()
                .map(|pod| text(&pod["spec"]["nodeName"]).to_owned());
            let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
            ensure!(names.len() == PODS, "{names:?}");
            Ok(names)
        })
    };
    let is_empty = |name: &String| EMPTY_NODES.contains(&name.as_str());
    let (of_model, others) = (nodes("model")?, nodes("other")?);
    ensure!(
        !of_model.iter().any(is_empty),
        "pods of the model are on {of_model:?}"
    );
    ensure!(
        others.iter().any(is_empty),
        "other pods are on {others:?}: the scheduler would have gone there anyway"
    );
    Ok(())
}

/// A scheduler with the sample's extender, which ends with this value.
struct Scheduler {
    child: Child,
    log: PathBuf,
    _dir: TempDir,
}

impl Scheduler {
    fn start(program: &Path) -> Result<Self> {
        let dir = TempDir::new()?;
        let (config, log) = (dir.path().join("config.json"), dir.path().join("log"));
        fs::write(&config, configuration()?.to_string())?;
        let output = File::create(&log)?;
        let child = Command::new(program)
            .args(["--secure-port=0", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Self {
            child,
            log,
            _dir: dir,
        })
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ended_by_itself = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The sample, with the Service's address, as a scheduler of its own name that runs alone.
fn configuration() -> Result<Value> {
    let sample = files::read("samples/scaler/kube-scheduler-config.yaml");
    let mut configuration = Objects::parse(&sample)?.0.remove(0);
    let service = Kubectl.json(&["get", "service", "-n", SYSTEM, "tetris-scaler"])?;
    let address = text(&service["spec"]["clusterIP"]);
    let url = &mut configuration["extenders"][0]["urlPrefix"];
    *url = text(url)
        .replace("tetris-scaler.tetris-system.svc", address)
        .into();
    let kubeconfig = std::env::var("KUBECONFIG")?;
    configuration["clientConnection"] = json!({"kubeconfig": kubeconfig});
    configuration["leaderElection"] = json!({"leaderElect": false});
    configuration["profiles"] = json!([{"schedulerName": SCHEDULER}]);
    Ok(configuration)
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
