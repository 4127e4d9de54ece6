//! The upgrade from a daemon of one privileged container, whose stores are root's, to processes: pods that map tensors notice nothing.

use anyhow::{Result, ensure};
use tetris_deploy_tests::cluster::wait_for;
use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::Objects;
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::holders::{Holders, PODS};
use crate::cluster::install::{
    Applied, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::node::{NODE_EXEC, Node};
use crate::cluster::processes;
use crate::cluster::sharing::a_daemon;

const EARLIER: &str = "TETRIS_IMAGE_NODE_EARLIER";
const STORES: &str = "/var/lib/tetris/stores";
/// User of the process that serves stores.
const BROKER: &str = "9460";

#[test]
fn an_upgrade_from_one_container_disturbs_no_pod() {
    on_the_cluster(|| {
        let (Some(node), Ok(earlier)) = (Node::of_environment(), std::env::var(EARLIER)) else {
            skipped(&format!(
                "{NODE_EXEC} names no program that runs commands on the node, or {EARLIER} no image"
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
        // As on a node that has had no other daemon: the tmpfs of another test is the broker's.
        node.run(&format!("umount {STORES} 2>/dev/null; true"))?;
        let now = Objects::rendered("tests/cluster/install", &images)?;
        let before = earlier_install(&now, &earlier)?;
        let _before = Applied::new("the earlier install", before)?;
        upgrade(&node, &images, now).map_err(|error| error.context(state()))
    });
}

/// All that is installed now, with the DaemonSet and the configuration of before.
fn earlier_install(now: &Objects, image: &str) -> Result<Objects> {
    let mut all = now.clone();
    all.0
        .retain(|object| object["kind"] != "DaemonSet" && object["kind"] != "ConfigMap");
    let earlier = Objects::parse(&files::read("tests/cluster/earlier/daemon-set.yaml"))?;
    let earlier = earlier.with_images(&[("tetris-node-earlier", image.to_owned())]);
    all.0.extend(earlier.0);
    Ok(all)
}

fn upgrade(node: &Node, images: &[(&str, String)], now: Objects) -> Result<()> {
    // Goes after the pods, whose volumes it takes away.
    let install;
    wait_for_daemons()?;
    let (earlier, name) = wait_for("a ready daemon", || a_daemon(None))?;
    let holders = Holders::new(images)?;
    holders.hold("first", 0)?.require_shared()?;
    holders.hold("second", 0)?.require_shared()?;
    require_owner(node, "0")?;
    let before = mappings(node)?;

    install = Applied::new("the install", now)?;
    wait_for_daemons()?;
    let (daemon, _) = wait_for("another daemon", || a_daemon(Some((&earlier, &name))))?;
    require_owner(node, BROKER)?;
    processes::require_rights(node, &daemon)?;
    ensure!(mappings(node)? == before, "mappings of pods have changed");
    Holders::require_undisturbed()?;
    // The store is the same, and takes more.
    holders.hold("known", 0)?.require_shared()?;
    holders.hold("new", 1)?.require_shared()?;
    Holders::require_undisturbed()?;
    holders.applied.remove()?;
    install.remove()
}

/// Checks the owner of all that lies in the namespace's store. Sockets belong to the user that pods may connect to.
fn require_owner(node: &Node, user: &str) -> Result<()> {
    let script =
        format!("find {STORES}/{PODS}.* ! -type s -exec stat -c '%u:%g' {{}} + | sort | uniq -c");
    let owners = wait_for("the store", || node.run(&script))?;
    let rows: Vec<_> = owners
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    ensure!(
        rows == [format!("{user}:{user}")],
        "expected {user}, found {owners}"
    );
    Ok(())
}

/// Mappings of all processes that hold the model, with addresses and inodes.
fn mappings(node: &Node) -> Result<String> {
    let script = "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = tetris ] && cat $p/maps; done; true";
    let maps = node.run(script)?;
    ensure!(
        maps.contains("/objects"),
        "no process maps an object: {maps}"
    );
    Ok(maps)
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", "tetris-e2e"],
        &["get", "events", "-n", "tetris-system"],
        &[
            "logs",
            "-n",
            "tetris-system",
            "daemonset/tetris-node",
            "--all-containers",
            "--prefix",
            "--tail=40",
        ],
    ])
}
