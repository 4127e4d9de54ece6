//! Attacks on the broker's memory, with the memory limit with which it ships.

use std::collections::BTreeMap;

use crate::attacker::{Attacker, tell};
use crate::node::{Node, Options, USER};
use crate::scene::Scene;
use crate::usage::MemoryWatch;

/// Memory of the broker while hostile records are followed: 64 MiB for their objects, and as much again for the index
/// of a pass. 300 records of the first kind took 2.45 GB once.
const RECORDS: u64 = 192 << 20;
/// Memory of the broker while hostile files are read: two thirds of its part of the limit, 512 MiB, are for headers,
/// and 16 MiB for everything else. 12 files of six stores took 1.51 GB once.
const HEADERS: u64 = (512 << 20) * 2 / 3 + (16 << 20);
/// Namespaces whose pods pass files with large headers.
const STORES: [&str; 4] = ["blue", "red", "grey", "pink"];
/// Number of hostile records.
const MANY: u64 = 400;

fn shipped() -> Options {
    Options {
        size_mib: Some(512),
        has_shipped_limits: true,
        ..Options::default()
    }
}

fn watch(node: &Node) -> MemoryWatch {
    MemoryWatch::start(node.process_id("broker"))
}

#[test]
fn records_of_large_tables_take_no_memory_and_let_a_daemon_start() {
    let Some(mut scene) = Scene::new(&shipped()) else {
        return;
    };
    let before = scene.node.usage();
    let memory = watch(&scene.node);
    let mut attacker = Attacker::start(&scene.node, &scene.hostile, "records", &[]);
    let recorded = |attacker: &Attacker| attacker.counts.get("recorded").copied();
    while recorded(&attacker).unwrap_or_default() < MANY {
        if !attacker.rounds(1) {
            return;
        }
    }
    scene.goes_on();
    let first = memory.stop();
    let pods = [&scene.hostile, &scene.victim];
    let restart = scene.node.restart_broker(&pods);
    let memory = watch(&scene.node);
    attacker.rounds(2);
    scene.goes_on();
    let second = memory.stop();
    tell(&format!(
        "the broker: at most {first} bytes before a restart and {second} after it, which took {restart:?}"
    ));
    for most in [first, second] {
        assert!(most <= RECORDS, "{most} bytes of {RECORDS}");
    }
    let (rounds, counts) = attacker.stop();
    tell(&format!("{rounds} rounds: {counts:?}"));
    scene.node.leave(&scene.hostile);
    scene.memory_returns(&before);
    scene.goes_on();
    scene.node.stop();
}

#[test]
fn large_headers_of_several_stores_stay_within_the_brokers_memory() {
    let Some(mut scene) = Scene::new(&shipped()) else {
        return;
    };
    let before = scene.node.usage();
    let memory = watch(&scene.node);
    let mut pods = vec![scene.hostile.clone()];
    for namespace in STORES.into_iter().skip(1) {
        pods.push(
            scene
                .node
                .pod(namespace, &format!("hostile-{namespace}"), USER),
        );
    }
    let start = |pod| Attacker::start(&scene.node, pod, "headers", &[]);
    let mut attackers: Vec<_> = pods.iter().map(start).collect();
    for attacker in &mut attackers {
        attacker.rounds(1);
    }
    scene.goes_on();
    for attacker in &mut attackers {
        attacker.rounds(1);
    }
    let most = memory.stop();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for attacker in attackers {
        for (name, number) in attacker.stop().1 {
            *counts.entry(name).or_default() += number;
        }
    }
    tell(&format!("the broker: at most {most} bytes; {counts:?}"));
    for read in ["largest-ingested", "shared-ingested"] {
        assert!(counts.contains_key(read), "{read}: {counts:?}");
    }
    for refused in ["above-ingested", "far-above-ingested", "metadata-ingested"] {
        assert!(!counts.contains_key(refused), "{refused}: {counts:?}");
    }
    assert!(most <= HEADERS, "{most} bytes of {HEADERS}");
    for pod in &pods {
        scene.node.leave(pod);
    }
    scene.memory_returns(&before);
    scene.goes_on();
    scene.node.stop();
}
