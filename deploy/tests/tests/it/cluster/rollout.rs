//! A rollout of the daemon while pods start: each of them gets its model, and those that run notice nothing.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use tetris_deploy_tests::cluster::{Kubectl, wait_for};
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::cluster::holders::{Holders, Load, MODELS};
use crate::cluster::install::{
    Applied, SYSTEM, image, look_at, on_the_cluster, require_absent, wait_for_daemons,
};
use crate::cluster::sharing::a_daemon;

/// Number of rollouts, one after the other.
const ROLLOUTS: u32 = 3;
/// Number of pods at most: a kubelet takes 110, and some run already.
const MOST: u32 = 60;
/// Time between the starts of two pods.
const EVERY: Duration = Duration::from_millis(1_500);
/// Reasons for private memory that a daemon's absence may give, by their names for programs. A load waits for the next
/// daemon, but only for some seconds.
const ABSENT: [&str; 3] = ["no-daemon", "daemon-silent", "read-only"];

#[test]
fn pods_that_start_during_a_rollout_get_their_models() {
    on_the_cluster(|| {
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
        roll(&images).map_err(|error| error.context(state()))?;
        install.remove()
    });
}

fn roll(images: &[(&str, String)]) -> Result<()> {
    wait_for_daemons()?;
    wait_for("a ready daemon", || a_daemon(None))?;
    let holders = Holders::new(images)?;
    holders.hold("before", 0)?.require_shared()?;

    let over = AtomicBool::new(false);
    let (started, rolled) = thread::scope(|scope| {
        let starts = scope.spawn(|| start_until(&holders, &over));
        let rolled = (0..ROLLOUTS).try_for_each(|_| restart_daemons());
        over.store(true, Ordering::Release);
        let started = starts.join().expect("the thread that starts pods ends");
        (started, rolled)
    });
    rolled?;
    let started = started?;
    ensure!(
        started.len() as u32 > ROLLOUTS,
        "{} pods are no load",
        started.len()
    );
    let mut private = BTreeMap::<String, Vec<&str>>::new();
    for name in &started {
        if let Some(cause) = cause(Holders::wait_for_load(name)?)? {
            private.entry(cause).or_default().push(name);
        }
    }
    let _closed = writeln!(
        std::io::stderr(),
        "{} pods started during {ROLLOUTS} rollouts, none failed; private by cause: {private:?}",
        started.len()
    );
    // A private load leaves nothing behind that keeps the next one from sharing.
    for model in 0..MODELS {
        let name = format!("after-{model}");
        holders.hold(&name, model)?.require_shared()?;
    }
    Holders::require_undisturbed()?;
    holders.applied.remove()
}

/// Starts pods until the rollouts are over. Returns their names.
fn start_until(holders: &Holders, over: &AtomicBool) -> Result<Vec<String>> {
    let mut started = Vec::new();
    for number in 0..MOST {
        if over.load(Ordering::Acquire) {
            break;
        }
        let name = format!("during-{number}");
        holders.start(&name, number % MODELS)?;
        started.push(name);
        thread::sleep(EVERY);
    }
    Ok(started)
}

/// Replaces each daemon, and waits until another one is ready.
fn restart_daemons() -> Result<()> {
    let before = daemons()?;
    Kubectl.run(&["rollout", "restart", "-n", SYSTEM, "daemonset/tetris-node"])?;
    wait_for_daemons()?;
    let after = daemons()?;
    ensure!(
        before.iter().all(|name| !after.contains(name)),
        "daemons are the same: {before:?}"
    );
    Ok(())
}

fn daemons() -> Result<Vec<String>> {
    let selector = "app.kubernetes.io/name=tetris-node";
    let pods = Kubectl.json(&["get", "pods", "-n", SYSTEM, "-l", selector])?;
    let alive = list(&pods["items"])
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    Ok(alive
        .map(|pod| text(&pod["metadata"]["name"]).to_owned())
        .collect())
}

/// Returns the cause of a private load, which must be that the daemon was away; `None` of a shared one.
fn cause(load: Load) -> Result<Option<String>> {
    if load.require_shared().is_ok() {
        return Ok(None);
    }
    load.require_private(&ABSENT)?;
    Ok(load.cause)
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
