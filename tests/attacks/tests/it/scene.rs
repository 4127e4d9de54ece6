//! A node with a hostile pod, and a victim in another namespace that must not notice.

use std::time::{Duration, Instant};

use crate::attacker::{Attacker, tell};
use crate::node::{Node, Options, Pod, USER};
use crate::usage::{Usage, damaged};
use crate::victim::{self, Victim};

/// Loads of the victim, passes and volumes during an attack.
const TIMES: usize = 3;
/// Longest time for one of each: what is above it is held up.
const STEP: Duration = Duration::from_secs(10);

/// Growth of a process's memory, besides a fifth, that is no leak: stacks of idle threads, and gaps between blocks in use.
const MEMORY_KIB: u64 = 16 << 10;

/// A node with a hostile pod, and one in another namespace.
pub struct Scene {
    pub node: Node,
    pub hostile: Pod,
    pub victim: Pod,
}

impl Scene {
    pub fn new(options: &Options) -> Option<Self> {
        let mut node = Node::start(options)?;
        let victim = node.pod("green", "victim", victim::USER);
        let hostile = node.pod("blue", "hostile", USER);
        Some(Self {
            node,
            hostile,
            victim,
        })
    }

    /// The attack in force, after some rounds; `None` where it cannot be made, which is said.
    pub fn attack(&self, name: &str, more: &[&str]) -> Option<Attacker> {
        let mut attacker = Attacker::start(&self.node, &self.hostile, name, more);
        attacker.rounds(2).then_some(attacker)
    }

    /// All others are served. Returns the number of loads of the victim.
    pub fn goes_on(&mut self) -> u64 {
        let passes = |node: &Node| node.metric("tetris_pass_duration_seconds_count");
        let before = passes(&self.node);
        let mut victim = Victim::start(&self.victim, Duration::from_millis(100));
        let passing = self.node.passing_pod("green", "passing");
        for _ in 0..TIMES {
            let begun = Instant::now();
            victim.loads(&self.node, 1);
            self.node.publish(&passing);
            self.node.unpublish(&passing);
            let health = self.node.page("/healthz").unwrap();
            assert!(health.starts_with("HTTP/1.1 200"), "{health}");
            let took = begun.elapsed();
            assert!(took < STEP, "{took:?}: {}", self.node.log());
        }
        self.node
            .eventually("passes", |node| passes(node) >= before + TIMES as f64);
        victim.stop(&self.node).len() as u64
    }

    /// Ends an attack, and waits until no process has more open files than before.
    pub fn end(mut self, attacker: Attacker, before: &Usage) {
        let (rounds, counts) = attacker.stop();
        tell(&format!("{rounds} rounds: {counts:?}"));
        let open = |usage: &Usage, name: &str| usage.processes[name].open_files;
        self.node.eventually("its descriptors are closed", |node| {
            let now = node.usage();
            let mut names = before.processes.keys();
            // A connection for pages, and a file of a pass, may be open at any moment.
            names.all(|name| open(&now, name) <= open(before, name) + 8)
        });
        for namespace in ["blue", "green"] {
            let damaged = damaged(&self.node.store(namespace, 1));
            assert_eq!(damaged, Vec::<std::path::PathBuf>::new(), "{namespace}");
        }
        self.node.stop();
    }

    /// Waits until each process has as little memory as before.
    pub fn memory_returns(&mut self, before: &Usage) {
        self.node.eventually("memory is back", |node| {
            let now = node.usage();
            before.processes.iter().all(|(name, before)| {
                let most = before.memory_kib + before.memory_kib / 5 + MEMORY_KIB;
                now.processes[name].memory_kib <= most
            })
        });
        let kib = |usage: &Usage| usage.processes["broker"].memory_kib;
        let (before, now) = (kib(before), kib(&self.node.usage()));
        tell(&format!("the broker: {before} KiB before, {now} KiB after"));
    }
}
