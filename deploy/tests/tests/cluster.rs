//! The install on a real cluster: two pods share a model, nobody can write, the daemon's restart disturbs nobody, and what
//! nobody uses any more is freed.
//!
//! Runs when `KUBECONFIG` names a cluster of one's own, on which Tetris is not installed. `TETRIS_IMAGE_NODE` and
//! `TETRIS_IMAGE_AGENT` name the images where the nodes have them under other names than `tetris-node` and `tetris-agent`.
//! Afterwards everything is removed but the empty tmpfs on the nodes (deploy/README.md, "Uninstall").

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tetris_deploy_tests::cluster::{Kubectl, StoreUse, get, wait_for};
use tetris_deploy_tests::model;
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

const SYSTEM: &str = "tetris-system";
/// Namespace of the pods, and so the name of their store.
const PODS: &str = "tetris-e2e";
const HOLDERS: [&str; 2] = ["holder-a", "holder-b"];
const PORT: u16 = 9460;

/// What was applied, removed at the end however the test ends.
struct Applied {
    what: &'static str,
    objects: Objects,
}

impl Applied {
    fn new(what: &'static str, objects: Objects) -> Result<Self> {
        // First, so that what was applied before an error is removed as well.
        let applied = Self { what, objects };
        Kubectl.with_objects(&["apply"], &applied.objects)?;
        Ok(applied)
    }

    fn remove(&self) -> Result<()> {
        let args = ["delete", "--ignore-not-found", "--timeout=240s"];
        Kubectl.with_objects(&args, &self.objects)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            skipped(&format!("removing {}: {error:#}", self.what));
        }
    }
}

fn image(variable: &str, name: &'static str) -> (&'static str, String) {
    (
        name,
        std::env::var(variable).unwrap_or_else(|_| name.to_owned()),
    )
}

#[test]
fn two_pods_share_a_model_and_leave_nothing() {
    if std::env::var_os("KUBECONFIG").is_none_or(|value| value.is_empty()) {
        return skipped("KUBECONFIG names no cluster");
    }
    install_and_try().unwrap_or_else(|error| panic!("{error:#}"));
}

fn install_and_try() -> Result<()> {
    Kubectl.run(&["version"])?;
    let there = Kubectl.run(&["get", "csidriver,namespace", "-o", "name"])?;
    for name in [
        "csi.tetris.dev",
        "namespace/tetris-system",
        "namespace/tetris-e2e",
    ] {
        ensure!(
            !there.lines().any(|line| line.ends_with(name)),
            "`{name}` is on this cluster already"
        );
    }
    let images = [
        image("TETRIS_IMAGE_NODE", "tetris-node"),
        image("TETRIS_IMAGE_AGENT", "tetris-agent"),
    ];
    let install = Objects::rendered("tests/cluster/install", &images)?;
    let _install = Applied::new("the install", install)?;
    // Before anything is removed.
    share_and_free(&images).map_err(|error| error.context(state()))
}

fn share_and_free(images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    let (daemon, node) = wait_for("a ready daemon", || a_daemon(None))?;
    let pods = apply_pods(images, &node)?;
    wait_for("both pods to hold the model", || require_shared(&daemon))?;
    for holder in HOLDERS {
        require_read_only(holder)?;
    }
    let daemon = require_undisturbed_by_a_restart(&daemon, &node)?;
    for holder in HOLDERS {
        Kubectl.run(&["delete", "pod", "-n", PODS, holder, "--timeout=240s"])?;
    }
    wait_for("the model to be freed", || {
        let used = use_of_store(&daemon)?;
        ensure!(used.objects == 0, "{used:?}");
        Ok(())
    })?;
    pods.remove()
}

/// References are the kernel's: another daemon finds them, and pods notice nothing. Returns the other daemon.
fn require_undisturbed_by_a_restart(daemon: &str, node: &str) -> Result<String> {
    Kubectl.run(&["delete", "pod", "-n", SYSTEM, daemon, "--timeout=240s"])?;
    wait_for_daemons()?;
    let (daemon, _) = wait_for("another daemon", || a_daemon(Some((daemon, node))))?;
    wait_for("the model to be held as before", || require_shared(&daemon))?;
    for holder in HOLDERS {
        let pod = Kubectl.json(&["get", "pod", "-n", PODS, holder])?;
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        ensure!(*restarts == 0, "{holder} restarted {restarts} times");
        require_read_only(holder)?;
    }
    Ok(daemon)
}

fn wait_for_daemons() -> Result<()> {
    let args = [
        "rollout",
        "status",
        "-n",
        SYSTEM,
        "daemonset/tetris-node",
        "--timeout=240s",
    ];
    Kubectl.run(&args).map(drop)
}

/// Name and node of a daemon that is ready; of another one than `not`, on its node.
fn a_daemon(not: Option<(&str, &str)>) -> Result<(String, String)> {
    let selector = "app.kubernetes.io/name=tetris-node";
    let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", selector])?;
    let mut ready = list(&pods["items"])
        .iter()
        .filter(|pod| is_ready(pod))
        .map(|pod| {
            let name = text(&pod["metadata"]["name"]).to_owned();
            (name, text(&pod["spec"]["nodeName"]).to_owned())
        });
    let found = ready.find(|(name, node)| not.is_none_or(|(old, on)| name != old && node == on));
    found.context("no daemon is ready; does a node have room for it, and the image?")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]).iter();
    let gone = pod["metadata"]["deletionTimestamp"].is_string();
    !gone
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Two pods on one node, each with a file of its own: the kubelet writes the ConfigMap for each.
fn apply_pods(images: &[(&str, String)], node: &str) -> Result<Applied> {
    let mut objects = Objects::rendered("tests/cluster/pods", images)?;
    objects.0.push(config_map()?);
    let is_pod = |object: &Value| object["kind"] == "Pod";
    for pod in objects.0.iter_mut().filter(|object| is_pod(object)) {
        pod["spec"]["nodeName"] = node.into();
    }
    let (pods, others): (Vec<_>, Vec<_>) = objects.0.iter().cloned().partition(is_pod);
    // Removed at the end, also what was applied before an error.
    let applied = Applied {
        what: "the pods",
        objects,
    };
    // Server-side, since the annotation of a plain `apply` would be as large as the model.
    let apply = ["apply", "--server-side"];
    Kubectl.with_objects(&apply, &Objects(others))?;
    let account = ["get", "serviceaccount", "-n", PODS, "default"];
    wait_for("the namespace's account", || Kubectl.run(&account))?;
    Kubectl.with_objects(&apply, &Objects(pods))?;
    Ok(applied)
}

/// The model, as the pods get it.
fn config_map() -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("model.safetensors");
    std::fs::write(&path, model::bytes()?)?;
    let from = format!("--from-file={}", path.display());
    let args = [
        "create",
        "configmap",
        "model",
        "-n",
        PODS,
        &from,
        "--dry-run=client",
    ];
    Kubectl.json(&args)
}

fn use_of_store(daemon: &str) -> Result<StoreUse> {
    let status = get(Kubectl, SYSTEM, daemon, PORT, "/status")?;
    StoreUse::of(&status, PODS)
}

/// That there is one copy: as many objects as the model has tensors, each held by every pod.
fn require_shared(daemon: &str) -> Result<()> {
    let (objects, pods) = (model::TENSORS as u64, HOLDERS.len() as u64);
    let expected = StoreUse {
        held_objects: objects,
        objects,
        holders: objects * pods,
    };
    let found = use_of_store(daemon)?;
    ensure!(found == expected, "expected {expected:?}, found {found:?}");
    Ok(())
}

/// A directory cannot be made in the mount, and the kernel says that it is because the mount is read-only.
fn require_read_only(holder: &str) -> Result<()> {
    let tetris = [
        "/usr/local/bin/tetris",
        "--store",
        "/run/tetris/store/e2e",
        "init",
    ];
    let mut args = vec!["exec", "-n", PODS, holder, "--"];
    args.extend(tetris);
    let output = Kubectl.output(&args)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("Read-only file system") {
        bail!(
            "{holder}: expected `Read-only file system`, found {:?}: {said}",
            output.status.code()
        );
    }
    Ok(())
}

/// What an engineer would look at first.
fn state() -> String {
    let look = |args: &[&str]| {
        Kubectl
            .run(args)
            .unwrap_or_else(|error| format!("{error:#}\n"))
    };
    [
        look(&["get", "pods", "-A", "-o", "wide"]),
        look(&["get", "events", "-n", PODS]),
        look(&["get", "events", "-n", SYSTEM]),
        look(&["logs", "-n", SYSTEM, "daemonset/tetris-node", "--tail=50"]),
        look(&["logs", "-n", PODS, HOLDERS[0], "--tail=20"]),
    ]
    .join("\n")
}
