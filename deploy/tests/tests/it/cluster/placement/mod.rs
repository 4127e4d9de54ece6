//! Pods get to the nodes of the plan, on the real scheduler with simulated nodes, whatever happens to the operator and to nodes.
//!
//! No image is needed: the programs run here, with the rights of their accounts. Existing nodes are cordoned meanwhile.
//! `TETRIS_PLACEMENT_NODES` has the numbers of nodes to try, by default `3,20,200`.

mod client;
mod figures;
mod nodes;
mod pods;
mod resources;
mod scene;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::cluster::install::{
    Applied, look_at, on_the_cluster, require_absent, wait_for_definitions,
};
use client::Api;
use figures::Figures;
use nodes::Nodes;
use resources::NAMESPACE;
use scene::Scene;

/// Longest time for which a gate may be closed.
const LONGEST: Duration = Duration::from_secs(10);
/// Least share of pods on their planned nodes, in thousandths.
const LEAST_PERMILLE: usize = 990;
/// The same after a roll with new pods beside the old ones, which fill the planned nodes: fewer the longer they take to leave.
const LEAST_SURGED_PERMILLE: usize = 250;
/// The same where the scheduler decides, which weighs the planned nodes against how full nodes are.
const LEAST_PREFERRED_PERMILLE: usize = 500;

#[test]
fn pods_are_where_they_were_planned() {
    on_the_cluster(|| {
        require_absent(&[
            "namespace/tetris-system",
            &format!("namespace/{NAMESPACE}"),
            "inferencefunctions.tetris.dev",
            "modelprofiles.tetris.dev",
        ])?;
        let _cordoned = Cordoned::new()?;
        let _namespaces = Applied::new("the namespaces", resources::namespaces())?;
        let install = Applied::new("the rights", install()?)?;
        wait_for_definitions()?;
        let api = Arc::new(Api::new()?);
        let counts = std::env::var("TETRIS_PLACEMENT_NODES").unwrap_or("3,20,200".to_owned());
        for count in counts.split(',') {
            let count = count
                .trim()
                .parse()
                .context("TETRIS_PLACEMENT_NODES: no number")?;
            try_it(&api, count).map_err(|error| error.context(state()))?;
        }
        install.remove()
    });
}

/// Definitions, accounts, rights and policies, without the pods.
fn install() -> Result<Objects> {
    let mut all = Objects::rendered("base/scaler", &[])?;
    let pods = ["Deployment", "PodDisruptionBudget"];
    all.0
        .retain(|object| !pods.contains(&text(&object["kind"])));
    Ok(all)
}

/// Nodes that were there before, which take no pods meanwhile.
struct Cordoned(Vec<String>);

impl Cordoned {
    fn new() -> Result<Self> {
        let nodes = Kubectl.json(&["get", "nodes"])?;
        let free = list(&nodes["items"]).iter();
        let free = free.filter(|node| node["spec"]["unschedulable"] != true);
        let cordoned = Self(
            free.map(|node| text(&node["metadata"]["name"]).to_owned())
                .collect(),
        );
        for name in &cordoned.0 {
            Kubectl.run(&["cordon", name])?;
        }
        Ok(cordoned)
    }
}

impl Drop for Cordoned {
    fn drop(&mut self) {
        for name in &self.0 {
            let _told_by_kubectl = Kubectl.run(&["uncordon", name]);
        }
    }
}

/// Everything on so many nodes.
fn try_it(api: &Arc<Api>, count: usize) -> Result<()> {
    let nodes = Nodes::new(Arc::clone(api), NAMESPACE);
    for number in 0..count {
        nodes.add(&resources::node_name(number), resources::cpus(number))?;
    }
    wait_for("the nodes to take pods", || nodes.require_untainted())?;
    let mut scene = Scene::new(&nodes, count)?;
    let mut figures = Figures::default();

    scene.start_operator()?;
    for _ in 0..4 {
        let expected = scene.change_loads()?;
        scene.wait_until_ready()?;
        figures.planned(&pods::pods()?, &expected);
    }
    figures.waits(&nodes, "scale-out, with the operator");

    // Old pods go first, which leaves all of them where they are.
    let plan = pods::annotated()?;
    scene.roll("1", &json!({"maxSurge": 0, "maxUnavailable": "50%"}))?;
    figures.planned(&pods::pods()?, &plan);
    figures.waits(&nodes, "roll in place");
    let mut surged = Figures::default();
    scene.roll("2", &json!(null))?;
    surged.planned(&pods::pods()?, &plan);
    figures.waits(&nodes, "roll with new pods beside the old ones");

    let lost = pods::busiest()?;
    nodes.lose(&lost)?;
    scene.wait_until_ready()?;
    pods::require_elsewhere(&lost)?;
    figures.waits(&nodes, "node loss");
    nodes.add(&lost, resources::cpus(0))?;
    wait_for("the node to be back", || nodes.require_untainted())?;

    let full = scene.fill_the_next_node()?;
    scene.wait_until_ready()?;
    figures.waits(
        &nodes,
        &format!("{full} full, although the plan thought otherwise"),
    );

    for pause in [0, 300, 1_000] {
        scene.change_loads()?;
        std::thread::sleep(Duration::from_millis(pause));
        scene.kill_operator();
        pods::wait_until_open()?;
        scene.start_operator()?;
        scene.wait_until_ready()?;
        figures.waits(
            &nodes,
            &format!("operator killed {pause} ms after a change"),
        );
    }
    figures.print(&format!("{count} nodes"));
    surged.print(&format!(
        "{count} nodes, after the roll with new pods beside the old ones"
    ));
    ensure!(figures.permille() >= LEAST_PERMILLE, "{figures:?}");
    ensure!(surged.permille() >= LEAST_SURGED_PERMILLE, "{surged:?}");
    ensure!(figures.longest() <= LONGEST, "{figures:?}");
    pods::remove()?;
    drop(scene);
    prefer(&nodes, count)
}

/// The mode without gates: the scheduler decides, and prefers the planned nodes.
fn prefer(nodes: &Nodes, count: usize) -> Result<()> {
    let mut scene = Scene::new(nodes, count)?;
    scene.start_operator_by("preferences")?;
    let mut figures = Figures::default();
    for _ in 0..2 {
        let expected = scene.change_loads()?;
        scene.wait_until_ready()?;
        figures.planned(&pods::pods()?, &expected);
    }
    for pod in pods::all("pods")? {
        let gates = &pod["spec"]["schedulingGates"];
        ensure!(list(gates).is_empty(), "expected no gate, found {gates}");
    }
    figures.print(&format!("{count} nodes, by preferences"));
    ensure!(
        figures.permille() >= LEAST_PREFERRED_PERMILLE,
        "{figures:?}"
    );
    pods::remove()
}

fn state() -> String {
    look_at(&[
        &["get", "nodes", "-o", "wide"],
        &["get", "pods,deployments", "-n", NAMESPACE, "-o", "wide"],
        &["get", "inferencefunctions", "-n", NAMESPACE],
        &["get", "events", "-n", NAMESPACE, "--sort-by=.lastTimestamp"],
    ])
}
