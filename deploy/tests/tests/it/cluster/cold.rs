//! A model that left memory comes back from the disk of its node.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
    wait_for_definitions, wait_for_rollout,
};
use crate::cluster::models::{MODEL, NAMESPACE, PYTHON, binding, hub, models, namespace};
use crate::cluster::node::{NODE_EXEC, Node};

#[test]
fn a_model_that_left_memory_comes_back_from_the_disk() {
    on_the_cluster(|| {
        let (Ok(python), Some(node)) = (std::env::var(PYTHON), Node::of_environment()) else {
            skipped(&format!(
                "{PYTHON} names no image, or {NODE_EXEC} no program that runs commands on the node"
            ));
            return Ok(());
        };
        require_absent(&[
            "csi.tetris.dev",
            "namespace/tetris-system",
            "namespace/tetris-models",
            "models.tetris.dev",
        ])?;
        let images = [
            image("TETRIS_IMAGE_NODE", "tetris-node"),
            image("TETRIS_IMAGE_AGENT", "tetris-agent"),
            image("TETRIS_IMAGE_SCALER", "tetris-scaler"),
        ];
        let install = Objects::rendered("tests/cluster/cold", &images)?;
        let _install = Applied::new("the install with a cold tier", install)?;
        let ended = keep_and_restore(&python, &node);
        node.run("rm -rf /var/lib/tetris/cold")?;
        ended.map_err(|error| error.context(state()))
    });
}

fn keep_and_restore(python: &str, node: &Node) -> Result<()> {
    wait_for_definitions()?;
    wait_for_daemons()?;
    wait_for_rollout("deployment/tetris-scaler")?;
    let _namespace = namespace()?;
    let _hub = hub(python)?;
    let _binding = Applied::new("the right to write", binding())?;

    let first = Applied::new("the models", models())?;
    wait_until_present()?;
    let fetched = keeper_log()?;
    ensure!(!fetched.contains("0 B were fetched"), "{fetched}");
    wait_for("the model to be on the disk", || {
        require_line("a model is on the disk")
    })?;
    let rights = node.run("stat -c %u:%a /var/lib/tetris/cold")?;
    ensure!(rights.trim() == "9460:700", "{rights}");

    // What no pod keeps leaves memory after two seconds here.
    first.remove()?;
    wait_for("the model to leave memory", || {
        let listed = node.run(&format!(
            "find /var/lib/tetris/stores/{NAMESPACE}.*/objects-v1 -type f -size +1M | wc -l"
        ))?;
        ensure!(listed.trim() == "0", "{listed} large objects");
        Ok(())
    })?;

    let _second = Applied::new("the models again", models())?;
    wait_until_present()?;
    require_line("a model is back from the disk")?;
    let kept = keeper_log()?;
    ensure!(kept.contains("0 B were fetched"), "{kept}");
    Ok(())
}

fn wait_until_present() -> Result<()> {
    let model = format!("model/{MODEL}");
    let ready = "--for=condition=Ready";
    Kubectl
        .run(&["wait", "-n", NAMESPACE, &model, ready, "--timeout=180s"])
        .map(drop)
}

/// Checks that the broker has logged this.
fn require_line(line: &str) -> Result<()> {
    let label = "app.kubernetes.io/name=tetris-node";
    let args = [
        "logs",
        "-n",
        SYSTEM,
        "-l",
        label,
        "-c",
        "broker",
        "--tail=-1",
    ];
    let log = Kubectl.run(&args)?;
    ensure!(log.contains(line), "the broker has not logged `{line}`");
    Ok(())
}

/// The state of the models and of the broker, for an error.
fn state() -> String {
    let label = "app.kubernetes.io/name=tetris-node";
    look_at(&[
        &["get", "models,pods", "-n", NAMESPACE, "-o", "wide"],
        &[
            "logs",
            "-n",
            SYSTEM,
            "-l",
            label,
            "-c",
            "broker",
            "--tail=60",
        ],
    ])
}

/// Log of the pod that keeps the model.
fn keeper_log() -> Result<String> {
    let pods = Kubectl.json(&["get", "pods", "-n", NAMESPACE])?;
    let is_keeper = |pod: &&Value| {
        pod["metadata"]["labels"]["tetris.dev/model"] == MODEL
            && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let keeper = list(&pods["items"]).iter().find(is_keeper);
    let keeper = keeper.with_context(|| format!("no pod keeps the model: {pods}"))?;
    Kubectl.run(&["logs", "-n", NAMESPACE, text(&keeper["metadata"]["name"])])
}
