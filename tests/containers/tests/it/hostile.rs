//! Containers that mean harm, beside good ones of the same namespace: no one else notices, and nothing is lost.

use std::io::Write;

use tetris_container_tests::model::Spec;
use tetris_container_tests::report::{Line, Tried};
use tetris_store_layout::{Store, Verified, VerifyDepth};

use crate::docker::Container;
use crate::host::Host;
use crate::node::{Node, Settings, held, objects};
use crate::pod::{Pod, Server, mib, said};
use crate::wait::until_so;

/// Few inodes, and nothing goes by itself: both bytes and inodes run out.
const SETTINGS: Settings = Settings {
    mib: 64,
    inodes: 400,
    expires: false,
};
const NAMESPACE: &str = "team";
const HELD: Spec = Spec::mib(5, 8);
/// Root in its container, and another user.
const HOSTILE: [u32; 2] = [0, 4242];
const FILES: &str = "200";

struct Site<'a> {
    node: Node<'a>,
    store: Store,
    /// A server that holds its model through everything.
    server: Server,
    objects: Vec<u64>,
}

impl<'a> Site<'a> {
    fn new(host: &'a Host) -> Self {
        let node = Node::start(host, SETTINGS);
        let server = good(&node, HELD);
        assert_eq!(server.loaded().bytes_private, 0);
        let store = node.store(NAMESPACE);
        let objects = held(&store);
        assert_eq!(objects.len() as u64, HELD.tensors);
        Self {
            node,
            store,
            server,
            objects,
        }
    }

    /// Starts the hostile containers with one of the pod's commands.
    fn attack(&self, command: &[&str]) -> Vec<Container> {
        let volume = self.node.publish("hostile", NAMESPACE);
        let start = |uid| {
            let pod = Pod::new(self.node.host, uid, 256).with_store(&volume);
            let seed = (1000 + uid).to_string();
            let mut command = command.to_vec();
            if command.first() == Some(&"pass") {
                command.extend(["--files", FILES, "--seed", &seed]);
            }
            pod.with_descriptors(20_000).run("hostile", &command)
        };
        HOSTILE.map(start).into()
    }

    /// While `attackers` do what they do, other pods load models, each a new one.
    fn withstand(&self, attackers: &[Container], seed: u64) {
        let mut rounds = 0;
        loop {
            let ended = attackers.iter().all(is_done);
            let spec = Spec::mib(seed + rounds, 4);
            let server = good(&self.node, spec);
            let loaded = server.loaded();
            assert_eq!(loaded.bytes_private, 0, "{loaded:?}");
            server.end();
            rounds += 1;
            if ended {
                break;
            }
        }
        for attacker in attackers {
            for line in said(attacker) {
                if let Line::Answers { to, counts } = line {
                    let _ = writeln!(std::io::stderr(), "{to}: {counts:?}");
                }
            }
        }
    }

    /// Nothing was lost, nothing added that is not what its name promises, and what no one holds goes.
    fn end_whole(self) {
        for object in objects(&self.store) {
            let verdict = self
                .store
                .verify(&object.object, VerifyDepth::Full)
                .unwrap();
            let freed_meanwhile = verdict == Verified::Absent;
            assert!(verdict == Verified::Sound || freed_meanwhile, "{verdict:?}");
        }
        assert!(self.store.foreign().unwrap().is_empty());
        assert!(self.store.objects().unwrap().foreign.is_empty());
        assert!(self.store.quarantined().unwrap().objects.is_empty());
        self.node.reconfigure(Settings {
            expires: true,
            ..SETTINGS
        });
        until_so("all that nobody holds is freed", || {
            let inodes = objects(&self.store).into_iter().map(|object| object.inode);
            let mut inodes: Vec<_> = inodes.collect();
            inodes.sort_unstable();
            inodes == self.objects
        });
        self.server.end();
        until_so("the rest is freed", || objects(&self.store).is_empty());
    }
}

/// A pod of another user, with its own download of the model.
fn good(node: &Node<'_>, spec: Spec) -> Server {
    let name = format!("good-{}", spec.seed);
    let model = node.host.download(&name, spec);
    let volume = node.publish(&name, NAMESPACE);
    let pod = Pod::new(node.host, 1000, 32).with_store(&volume);
    pod.with_models(&model).load(spec)
}

fn is_done(container: &Container) -> bool {
    let runs = container.is_running();
    let done = said(container).contains(&Line::Done);
    assert!(done || runs, "{}", container.stderr());
    done
}

#[test]
fn a_pod_can_change_nothing_in_the_store() {
    let Some(host) = Host::new() else { return };
    let site = Site::new(&host);
    let attackers = site.attack(&["tamper"]);
    site.withstand(&attackers, 100);
    for attacker in &attackers {
        let lines = said(attacker);
        let tried: Vec<&Tried> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Tried(tried) => Some(tried),
                _ => None,
            })
            .collect();
        assert!(tried.len() > 100, "{} attempts", tried.len());
        let allowed: Vec<_> = tried.iter().filter(|tried| tried.error.is_none()).collect();
        assert!(allowed.is_empty(), "{allowed:?}");
    }
    site.end_whole();
}

/// Everybody may lock what they can read, and keep that. It must not keep the daemon from publishing, reclaiming, or taking its
/// socket's name when it is started anew.
#[test]
fn locks_that_a_pod_can_have_lock_nobody_out() {
    let Some(host) = Host::new() else { return };
    let site = Site::new(&host);
    let attackers = site.attack(&["lock"]);
    site.withstand(&attackers, 200);
    site.node.kill();
    site.node.start_again();
    site.node.wait_for_socket(NAMESPACE);
    site.withstand(&attackers, 300);
    site.end_whole();
}

#[test]
fn a_flood_of_connections_and_garbage_is_borne() {
    let Some(host) = Host::new() else { return };
    let site = Site::new(&host);
    let before = site.node.resources();
    let attackers = site.attack(&["flood"]);
    site.withstand(&attackers, 400);
    drop(attackers);
    settles(&site.node, before);
    site.end_whole();
}

#[test]
fn what_is_no_model_file_is_refused_and_too_many_files_push_out_nothing_that_is_held() {
    let Some(host) = Host::new() else { return };
    let site = Site::new(&host);
    let before = site.node.resources();
    let attackers = site.attack(&["pass", "/scratch"]);
    site.withstand(&attackers, 500);
    for attacker in &attackers {
        refused(attacker);
    }
    let log = site.node.container.stderr();
    assert!(
        log.contains("pressure"),
        "room ran out, or this shows little"
    );
    drop(attackers);
    settles(&site.node, before);
    site.end_whole();
}

/// Of what is no file, none was taken; of files that change, some may have been, as they were at a moment.
fn refused(attacker: &Container) {
    let never = [
        "a directory",
        "a FIFO",
        "the null device",
        "the zero device",
        "a file of proc",
        "a socket",
        "a path",
        "a file for writing",
        "a huge sparse file",
    ];
    let lines = said(attacker);
    for what in never {
        let counts = lines.iter().find_map(|line| match line {
            Line::Answers { to, counts } if to == what => Some(counts),
            _ => None,
        });
        let counts = counts.unwrap_or_else(|| panic!("{what} was not passed"));
        let refused = counts.keys().all(|answer| answer.starts_with("refused"));
        assert!(refused, "{what}: {counts:?}");
    }
}

/// The daemon's descriptors come back to what they were, and its memory to near it: allocators keep some.
fn settles(node: &Node<'_>, (descriptors, bytes): (usize, u64)) {
    until_so("its descriptors are closed", || {
        node.resources().0 <= descriptors + 2
    });
    let now = node.resources();
    let _ = writeln!(
        std::io::stderr(),
        "the daemon: {descriptors} descriptors and {} MiB before, {} and {} MiB after",
        bytes / mib(1),
        now.0,
        now.1 / mib(1)
    );
    assert!(now.1 < bytes + mib(48), "{} bytes", now.1);
}
