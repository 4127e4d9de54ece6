//! Two pods share a model, no one can write, the daemon's restart disturbs no one, and what no one uses any more is freed.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tetris_deploy_tests::cluster::{Kubectl, StoreUse, get, wait_for};
use tetris_deploy_tests::model;
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::cluster::install::{
    APPLY, Applied, SYSTEM, config_map, image, look_at, on_the_cluster, require_absent,
    wait_for_daemons,
};

/// Namespace of the pods, and so the name of their store.
const PODS: &str = "tetris-e2e";
const HOLDERS: [&str; 2] = ["holder-a", "holder-b"];
const PORT: u16 = 9460;

#[test]
fn two_pods_share_a_model_and_leave_nothing() {
    on_the_cluster(install_and_try);
}

fn install_and_try() -> Result<()> {
    require_absent(&[
        "csi.tetris.dev",
        "namespace/tetris-system",
        "namespace/tetris-e2e",
    ])?;
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

/// Name and node of a daemon that is ready; of another one than `not`, on its node.
pub fn a_daemon(not: Option<(&str, &str)>) -> Result<(String, String)> {
    let selector = "app.kubernetes.io/name=tetris-node";
    let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", selector])?;
    let mut ready = list(&pods["items"])
        .iter()
        .filter(|pod| is_ready(pod))
        .map(|pod| {
            let name = text(&pod["metadata"]["name"]).to_owned();
            (name, text(&pod["spec"]["nodeName"]).to_owned())
        });
    let daemon = ready.find(|(name, node)| not.is_none_or(|(old, on)| name != old && node == on));
    daemon.context("no daemon is ready; does a node have room for it, and the image?")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]).iter();
    let gone = pod["metadata"]["deletionTimestamp"].is_string();
    !gone
        && conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Two pods on one node, each with its own file: the kubelet writes the ConfigMap for each.
fn apply_pods(images: &[(&str, String)], node: &str) -> Result<Applied> {
    let mut objects = Objects::rendered("tests/cluster/pods", images)?;
    objects.0.push(config_map(PODS)?);
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
    Kubectl.with_objects(&APPLY, &Objects(others))?;
    let account = ["get", "serviceaccount", "-n", PODS, "default"];
    wait_for("the namespace's account", || Kubectl.run(&account))?;
    Kubectl.with_objects(&APPLY, &Objects(pods))?;
    Ok(applied)
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
    let used = use_of_store(daemon)?;
    ensure!(used == expected, "expected {expected:?}, found {used:?}");
    Ok(())
}

/// A directory cannot be made in the mount, and the kernel reports that it is because the mount is read-only.
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

pub fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", PODS],
        &["get", "events", "-n", SYSTEM],
        &["logs", "-n", SYSTEM, "daemonset/tetris-node", "--tail=50"],
        &["logs", "-n", PODS, HOLDERS[0], "--tail=20"],
    ])
}
