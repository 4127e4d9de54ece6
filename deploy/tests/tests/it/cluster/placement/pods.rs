//! Pods of the functions, as the API server has them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{list, text};

use super::figures::Spots;
use super::resources::NAMESPACE;

/// Objects of a kind.
pub fn all(what: &str) -> Result<Vec<Value>> {
    let listed = Kubectl.json(&["get", what, "-n", NAMESPACE])?;
    Ok(list(&listed["items"]).to_vec())
}

/// Waits until no gate is closed, without the operator.
pub fn wait_until_open() -> Result<()> {
    wait_for("all gates to be open", || {
        let pods = all("pods")?;
        let closed = pods
            .iter()
            .filter(|pod| !list(&pod["spec"]["schedulingGates"]).is_empty());
        let closed = closed.count();
        ensure!(closed == 0, "{closed} gates are closed");
        Ok(())
    })
}

/// Pods by Deployment and node.
pub fn pods() -> Result<Spots> {
    let mut spots = Spots::new();
    for pod in all("pods")? {
        let labels = &pod["metadata"]["labels"];
        let deployment = format!(
            "{}-{}",
            text(&labels["tetris.dev/function"]),
            text(&labels["tetris.dev/configuration"])
        );
        *spots
            .entry((deployment, text(&pod["spec"]["nodeName"]).to_owned()))
            .or_default() += 1;
    }
    Ok(spots)
}

/// Planned pods according to the annotations of Deployments.
pub fn annotated() -> Result<Spots> {
    let mut spots = Spots::new();
    for deployment in all("deployments")? {
        let name = text(&deployment["metadata"]["name"]);
        let planned = text(&deployment["metadata"]["annotations"]["tetris.dev/planned-nodes"]);
        let planned: BTreeMap<String, u32> = serde_json::from_str(planned)?;
        spots.extend(
            planned
                .into_iter()
                .map(|(node, count)| ((name.to_owned(), node), count)),
        );
    }
    Ok(spots)
}

/// The node with most pods.
pub fn busiest() -> Result<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for ((_, node), count) in pods()? {
        *counts.entry(node).or_default() += count;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    Ok(most.context("no pods")?.0)
}

/// Requires that no pod is on a node.
pub fn require_elsewhere(node: &str) -> Result<()> {
    let pods = pods()?;
    ensure!(
        pods.keys()
            .all(|(_, found)| found != node && !found.is_empty()),
        "{pods:?}"
    );
    Ok(())
}

/// Removes the functions, and waits for their pods to go.
pub fn remove() -> Result<()> {
    let kinds = "inferencefunctions.tetris.dev,modelprofiles.tetris.dev";
    Kubectl.run(&["delete", kinds, "--all", "-n", NAMESPACE, "--timeout=120s"])?;
    wait_for("the pods to go", || {
        let pods = all("pods")?;
        ensure!(pods.is_empty(), "{} pods", pods.len());
        Ok(())
    })
}
