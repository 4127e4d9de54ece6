//! The daemon's processes on a real node: the rights that they have, and what goes on while one of them is away.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use tetris_deploy_tests::cluster::{Kubectl, get, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;

use crate::cluster::holders::Holders;
use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::node::{NODE_EXEC, Node};
use crate::cluster::sharing::a_daemon;

const PROBES: u16 = 9465;
const METRICS: u16 = 9464;
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const PROCESSES: [&str; 3] = ["volumes", "broker", "cluster"];
/// Memory of all processes of an idle node.
const IDLE_BYTES: u64 = 96 << 20;

#[test]
fn each_process_has_its_rights_alone_and_may_be_away() {
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
        let _install = Applied::new("the install", install)?;
        try_processes(&node, &images).map_err(|error| error.context(state()))
    });
}

fn try_processes(node: &Node, images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    let (daemon, _) = wait_for("a ready daemon", || a_daemon(None))?;
    require_rights(node, &daemon)?;
    require_little_memory(node, &daemon)?;
    let holders = Holders::new(images)?;
    holders.hold("first", 0)?.require_shared()?;

    let broker = node.process(SYSTEM, &daemon, "broker")?;
    node.signal(broker, "STOP")?;
    let stopped = require_all_but_loads(&daemon, &holders);
    // It would hold up the removal.
    node.signal(broker, "CONT")?;
    stopped?;
    wait_for("the broker to answer again", || {
        answers(&daemon, "/healthz/broker")
    })?;
    holders.hold("after-stop", 1)?.require_shared()?;

    for (model, process) in (2..).zip(["broker", "volumes"]) {
        kill(node, &daemon, process)?;
        holders
            .hold(&format!("after-{process}"), model)?
            .require_shared()?;
    }
    kill(node, &daemon, "cluster")?;
    holders.hold("after-cluster", 0)?.require_shared()?;
    Holders::require_undisturbed()?;
    require_rights(node, &daemon)?;
    holders.applied.remove()
}

/// While the broker is stopped: pods start, known models are attached, others are private and say so, and pages answer.
fn require_all_but_loads(daemon: &str, holders: &Holders) -> Result<()> {
    holders.hold("known", 0)?.require_shared()?;
    let private = holders.hold("unknown", 1)?;
    private.require_private(&["daemon-silent", "no-daemon"])?;
    for page in ["/healthz", "/healthz/volumes"] {
        answers(daemon, page)?;
    }
    for (port, page) in [
        (PROBES, "/healthz/broker"),
        (PROBES, "/readyz"),
        (METRICS, "/metrics"),
    ] {
        let answer = get(Kubectl, SYSTEM, daemon, port, page).map(drop);
        let said = answer
            .err()
            .map(|error| format!("{error:#}"))
            .unwrap_or_default();
        ensure!(
            said.contains("503"),
            "{page}: expected status 503, found {said:?}"
        );
    }
    Holders::require_undisturbed()
}

fn answers(daemon: &str, page: &str) -> Result<()> {
    get(Kubectl, SYSTEM, daemon, PROBES, page).map(drop)
}

/// Kills a process, and waits until the kubelet has started the next and all is well again.
fn kill(node: &Node, daemon: &str, process: &str) -> Result<()> {
    let before = restarts(daemon, process)?;
    node.signal(node.process(SYSTEM, daemon, process)?, "KILL")?;
    wait_for(&format!("{process} to be there again"), || {
        ensure!(
            restarts(daemon, process)? > before,
            "{process} was not restarted"
        );
        node.process(SYSTEM, daemon, process)?;
        answers(daemon, "/readyz")
    })?;
    wait_for_daemons()
}

fn restarts(daemon: &str, process: &str) -> Result<u64> {
    let pod = Kubectl.json(&["get", "pod", "-n", SYSTEM, daemon])?;
    let mut all = list(&pod["status"]["containerStatuses"]).iter();
    let status = all.find(|status| text(&status["name"]) == process);
    let count = status.and_then(|status| status["restartCount"].as_u64());
    count.with_context(|| format!("no container {process}"))
}

/// From the kernel, of the live processes.
pub fn require_rights(node: &Node, daemon: &str) -> Result<()> {
    for (process, user) in PROCESSES.into_iter().zip([0, 9460, 9461]) {
        let id = node.process(SYSTEM, daemon, process)?;
        let status = node.status(id)?;
        let field = |name: &str| status.get(name).map(String::as_str).unwrap_or_default();
        let users = format!("{user} {user} {user} {user}");
        ensure!(
            field("Uid") == users && field("Gid") == users,
            "{process}: {status:?}"
        );
        if process != "volumes" {
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                ensure!(
                    field(set) == "0000000000000000",
                    "{process}: {set} is {}",
                    field(set)
                );
            }
            ensure!(field("NoNewPrivs") == "1", "{process}: {status:?}");
            // The runtime's filter, and its own.
            let filters: u32 = field("Seccomp_filters").parse()?;
            ensure!(
                field("Seccomp") == "2" && filters >= 2,
                "{process}: {filters} filters"
            );
        }
        let has_token = node.sees(id, TOKEN)?;
        ensure!(
            has_token == (process == "cluster"),
            "{process}: has the token: {has_token}"
        );
        for other in ["broker", "cluster"] {
            let directory = format!("/run/tetris/{other}");
            if process == "broker" && other == "cluster" {
                ensure!(!node.sees(id, &directory)?, "{process} has {directory}");
                continue;
            }
            let options = node.mount_options(id, &directory)?;
            let writable = options.iter().any(|option| option == "rw");
            ensure!(
                writable == (process == other),
                "{process}: {directory}: {options:?}"
            );
        }
    }
    Ok(())
}

/// Of an idle node with no store. Pages of the program are shared by the processes.
fn require_little_memory(node: &Node, daemon: &str) -> Result<()> {
    let mut all = 0;
    for process in PROCESSES {
        let id = node.process(SYSTEM, daemon, process)?;
        let bytes = node.proportional_bytes(id)?;
        let _ = writeln!(std::io::stderr(), "{process}: {} MiB", bytes >> 20);
        all += bytes;
    }
    ensure!(
        0 < all && all <= IDLE_BYTES,
        "{} MiB, expected at most {}",
        all >> 20,
        IDLE_BYTES >> 20
    );
    Ok(())
}

fn state() -> String {
    look_at(&[
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "events", "-n", "tetris-e2e"],
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
