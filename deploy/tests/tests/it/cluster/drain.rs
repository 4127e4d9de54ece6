//! A node that is drained: its pods go, their volumes with them, and what they shared; the daemon stays. Then it serves again, and the
//! uninstall leaves nothing but an empty tmpfs.

use anyhow::{Result, ensure};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::holders::{Holders, PODS};
use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::node::{NODE_EXEC, Node};
use crate::cluster::sharing::a_daemon;

const STORES: &str = "/var/lib/tetris/stores";
const PYTHON: &str = "/var/lib/tetris/python";
const PLUGIN: &str = "/var/lib/kubelet/plugins/csi.tetris.dev";

#[test]
fn a_drained_node_is_empty_and_serves_again() {
    on_the_cluster(|| {
        let Some(node) = Node::of_environment() else {
            skipped(&format!(
                "{NODE_EXEC} names no program that runs commands on the node"
            ));
            return Ok(());
        };
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
        let install = Applied::new("the install", install)?;
        drain(&node, &images).map_err(|error| error.context(state()))?;
        install.remove()?;
        require_uninstalled(&node)
    });
}

fn drain(node: &Node, images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    let (daemon, name) = wait_for("a ready daemon", || a_daemon(None))?;
    let holders = Holders::new(images)?;
    holders.hold("first", 0)?.require_shared()?;
    holders.hold("second", 0)?.require_shared()?;
    let cordoned = Cordoned(name.clone());
    // Pods of the test have no controller, which only --force takes.
    let options = ["--ignore-daemonsets", "--force", "--timeout=120s"];
    Kubectl.run(&[&["drain", &name][..], &options].concat())?;
    let pods = Kubectl.json(&["get", "pods", "-n", PODS])?;
    ensure!(list(&pods["items"]).is_empty(), "{pods}");
    let (still, _) = a_daemon(None)?;
    ensure!(still == daemon, "the daemon was replaced by {still}");
    wait_for("the volumes to be unmounted", || {
        let mounted = node.run("grep -c kubernetes.io~csi /proc/mounts; true")?;
        ensure!(mounted.trim() == "0", "{mounted} volumes are mounted");
        Ok(())
    })?;
    wait_for("the objects to be freed", || {
        let objects = node.run(&format!("find {STORES}/{PODS}.*/objects-v1 -type f"))?;
        ensure!(objects.is_empty(), "{objects}");
        Ok(())
    })?;
    drop(cordoned);
    holders.hold("third", 0)?.require_shared()?;
    holders.applied.remove()
}

/// A node that takes no pods, until this value is dropped.
struct Cordoned(String);

impl Drop for Cordoned {
    fn drop(&mut self) {
        let _stays = Kubectl.run(&["uncordon", &self.0]);
    }
}

/// The commands of the page on uninstalling, which end with an error if anything is left there.
fn require_uninstalled(node: &Node) -> Result<()> {
    let mounted = node.run(&format!("grep -c ' {STORES} tmpfs ' /proc/mounts; true"))?;
    ensure!(mounted.trim() == "1", "expected one tmpfs, found {mounted}");
    node.run(&format!(
        "set -e; if [ -d {PYTHON} ]; then \
         find {PYTHON} -mindepth 1 -maxdepth 1 -exec umount {{}} \\; -exec rmdir {{}} \\;; rmdir {PYTHON}; fi; \
         umount {STORES}; rmdir {STORES}; rmdir /var/lib/tetris {PLUGIN}"
    ))?;
    Ok(())
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", PODS],
        &["get", "events", "-n", SYSTEM],
        &[
            "logs",
            "-n",
            SYSTEM,
            "daemonset/tetris-node",
            "--all-containers",
            "--prefix",
            "--tail=40",
        ],
    ])
}
