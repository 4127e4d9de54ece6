//! A restart of the kubelet: pods keep their tensors, the driver is registered again, and pods that start or go get their volumes as before.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::holders::{Holders, PODS};
use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::sharing::a_daemon;

/// Variable with the command of a shell that restarts the kubelet of the one node, from this machine.
const RESTART: &str = "TETRIS_KUBELET_RESTART";
const DRIVER: &str = "csi.tetris.dev";

#[test]
fn a_restart_of_the_kubelet_disturbs_no_pod_and_volumes_go_on() {
    on_the_cluster(|| {
        let restart = std::env::var(RESTART).unwrap_or_default();
        if restart.is_empty() {
            skipped(&format!(
                "{RESTART} has no command that restarts the node's kubelet, such as `ssh node systemctl restart kubelet`"
            ));
            return Ok(());
        }
        require_absent(&[DRIVER, "namespace/tetris-system", "namespace/tetris-e2e"])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_AGENT", "tetris-agent"),
        ];
        let install = Objects::rendered("tests/cluster/install", &images)?;
        let install = Applied::new("the install", install)?;
        try_restart(&restart, &images).map_err(|error| error.context(state()))?;
        install.remove()
    });
}

fn try_restart(command: &str, images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    let (daemon, _) = wait_for("a ready daemon", || a_daemon(None))?;
    let holders = Holders::new(images)?;
    holders.hold("before", 0)?.require_shared()?;
    holders.hold("leaves", 1)?.require_shared()?;
    let (began, restarts) = (kubelet_start()?, restarts(&daemon)?);

    restart(command)?;
    wait_for("another kubelet", || {
        let now = kubelet_start()?;
        ensure!(now > began, "it began at {now} s, as before");
        Ok(())
    })?;
    wait_for("the driver to be registered", is_registered)?;
    wait_for_daemons()?;

    // Known and unknown models, a volume that goes, and one that comes back.
    holders.hold("known", 0)?.require_shared()?;
    holders.hold("unknown", 2)?.require_shared()?;
    remove("leaves")?;
    holders.hold("leaves", 1)?.require_shared()?;
    Holders::require_undisturbed()?;
    let now = self::restarts(&daemon)?;
    ensure!(
        now == restarts,
        "restarts of {daemon}: {restarts}, now {now}"
    );
    holders.applied.remove()
}

fn restart(command: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", command]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{RESTART}=`{command}`: {errors}");
    Ok(())
}

/// Time at which the node's kubelet began, in seconds since the epoch, as its metrics tell.
fn kubelet_start() -> Result<f64> {
    let nodes = Kubectl.json(&["get", "nodes"])?;
    let [node] = list(&nodes["items"]) else {
        anyhow::bail!("expected one node, as the command restarts one kubelet");
    };
    let path = format!(
        "/api/v1/nodes/{}/proxy/metrics",
        text(&node["metadata"]["name"])
    );
    let metrics = Kubectl.run(&["get", "--raw", &path])?;
    let mut lines = metrics.lines();
    let start = lines.find_map(|line| line.strip_prefix("process_start_time_seconds "));
    Ok(start
        .context("the kubelet's metrics have no process_start_time_seconds")?
        .parse()?)
}

fn is_registered() -> Result<()> {
    let nodes = Kubectl.json(&["get", "csinodes"])?;
    let nodes = list(&nodes["items"]).iter();
    let mut drivers = nodes.flat_map(|node| list(&node["spec"]["drivers"]));
    ensure!(
        drivers.any(|driver| driver["name"] == DRIVER),
        "no node has {DRIVER}"
    );
    Ok(())
}

fn remove(pod: &str) -> Result<()> {
    let gone = ["delete", "pod", "-n", PODS, pod, "--timeout=120s"];
    Kubectl.run(&gone).map(drop)
}

/// Number of restarts of all processes of the daemon.
fn restarts(daemon: &str) -> Result<u64> {
    let pod = Kubectl.json(&["get", "pod", "-n", SYSTEM, daemon])?;
    let statuses = list(&pod["status"]["containerStatuses"]).iter();
    let counts = statuses.map(|status| status["restartCount"].as_u64());
    let sum: Option<u64> = counts.sum();
    sum.context("a container without a number of restarts")
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "csinodes", "-o", "yaml"],
        &["get", "events", "-n", PODS, "--sort-by=.lastTimestamp"],
        &[
            "logs",
            "-n",
            SYSTEM,
            "daemonset/tetris-node",
            "--all-containers",
            "--tail=50",
        ],
    ])
}
