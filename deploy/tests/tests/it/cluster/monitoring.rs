//! The overlay of the Prometheus operator, where the cluster has its kinds: its monitors find each component's port.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tetris_deploy_tests::cluster::{Kubectl, get, wait_for};
use tetris_deploy_tests::objects::{Objects, list, pairs, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::gateway;
use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_definitions, wait_for_rollout,
};

/// Kinds of the Prometheus operator, as API servers name them.
const KINDS: [&str; 2] = [
    "podmonitors.monitoring.coreos.com",
    "prometheusrules.monitoring.coreos.com",
];
const DEPLOYMENTS: [&str; 4] = [
    "tetris-webhook",
    "tetris-scaler",
    "tetris-gates",
    "tetris-gateway",
];

#[test]
fn monitors_find_the_metrics_of_each_component() {
    on_the_cluster(|| {
        let there = Kubectl.run(&["get", "customresourcedefinition", "-o", "name"])?;
        if let Some(missing) = KINDS.iter().find(|kind| !there.contains(**kind)) {
            skipped(&format!("the cluster has no {missing}"));
            return Ok(());
        }
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
            image("TETRIS_IMAGE_WEBHOOK", "tetris-webhook"),
            image("TETRIS_IMAGE_GATEWAY", "tetris-gateway"),
        ];
        let mut install = Objects::rendered("tests/cluster/gateway", &images)?;
        let webhook = Objects::rendered("tests/cluster/webhook", &images)?;
        install.0.extend(webhook.0);
        let install = Applied::new("the install", install)?;
        // A gateway counts by function, and so has no metrics without one. At zero it needs no image.
        wait_for_definitions()?;
        let function = Applied::new("the function", gateway::served("python")?)?;
        let overlay = Objects::rendered("overlays/monitoring", &[])?;
        let monitoring = Applied::new("the monitoring overlay", overlay)?;
        require_metrics(&monitoring.objects).map_err(|error| error.context(state()))?;
        monitoring.remove()?;
        function.remove()?;
        install.remove()
    });
}

fn require_metrics(overlay: &Objects) -> Result<()> {
    wait_for_daemons()?;
    for deployment in DEPLOYMENTS {
        wait_for_rollout(&format!("deployment/{deployment}"))?;
    }
    let is_monitor = |object: &&Value| object["kind"] == "PodMonitor";
    let monitors: Vec<_> = overlay.0.iter().filter(is_monitor).collect();
    ensure!(
        monitors.len() == DEPLOYMENTS.len() + 1,
        "expected a monitor for each component, found {}",
        monitors.len()
    );
    for monitor in monitors {
        let name = text(&monitor["metadata"]["name"]);
        wait_for(&format!("metrics by {name}"), || scrape(monitor))
            .with_context(|| format!("{monitor}"))?;
    }
    Ok(())
}

/// Reads what Prometheus would: each endpoint of each pod that the monitor selects.
fn scrape(monitor: &Value) -> Result<()> {
    let labels = pairs(&monitor["spec"]["selector"]["matchLabels"]);
    let selector: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", &selector.join(",")])?;
    ensure!(!list(&pods["items"]).is_empty(), "{selector:?}: no pods");
    for pod in list(&pods["items"]) {
        let name = text(&pod["metadata"]["name"]);
        for endpoint in list(&monitor["spec"]["podMetricsEndpoints"]) {
            let port = port_of(pod, text(&endpoint["port"]))
                .with_context(|| format!("{name} has no port {}", endpoint["port"]))?;
            let page = get(Kubectl, SYSTEM, name, port, text(&endpoint["path"]))?;
            ensure!(page.contains("# TYPE tetris_"), "{name}: {page}");
        }
    }
    Ok(())
}

/// Number of a port that a container of the pod names.
fn port_of(pod: &Value, name: &str) -> Option<u16> {
    let containers = list(&pod["spec"]["containers"]).iter();
    let mut ports = containers.flat_map(|container| list(&container["ports"]));
    let port = ports.find(|port| port["name"] == name)?;
    u16::try_from(port["containerPort"].as_u64()?).ok()
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-n", SYSTEM, "-o", "wide"],
        &["get", "events", "-n", SYSTEM],
    ])
}
