//! Each attack on its own daemon. While it is made, a victim in another namespace gets all its loads from the
//! daemon, volumes come and go, probes are answered and passes are made; after it, nothing is left of it.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use tetris_agent::{Agent, LoadOptions};
use tetris_attacks::victim::BYTES;

use crate::attacker::{Attacker, tell};
use crate::node::{Options, USER};
use crate::scene::Scene;
use crate::usage::{bytes_read, files};
use crate::victim::Victim;

const MIB: u64 = 1 << 20;

/// An attack of which it matters only that no one else notices.
fn nobody_else_notices(name: &str, more: &[&str]) {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let before = scene.node.usage();
    let Some(attacker) = scene.attack(name, more) else {
        return;
    };
    scene.goes_on();
    scene.end(attacker, &before);
}

/// An attack that others must not notice once the attacker's store takes no more.
fn when_its_store_is_full(name: &str, options: &Options) {
    let Some(mut scene) = Scene::new(options) else {
        return;
    };
    let before = scene.node.usage();
    let mut attacker = Attacker::start(&scene.node, &scene.hostile, name, &[]);
    while !attacker.counts.contains_key("private") {
        attacker.rounds(1);
    }
    scene.goes_on();
    scene.end(attacker, &before);
}

#[test]
fn sockets_whose_last_close_waits_hold_up_nobody() {
    nobody_else_notices("lingering", &[]);
}

#[test]
fn records_without_objects_do_not_fill_the_node() {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let before = scene.node.usage();
    let Some(attacker) = scene.attack("metadata", &[]) else {
        return;
    };
    scene.goes_on();
    // A quarter of 60 % of 128 MiB, and a file of each turn besides.
    let most = 128 * MIB * 60 / 100 / 4 + 4 * 5 * MIB;
    let folder = scene.node.store("blue", 1).join("manifests-v1");
    let (bytes, _) = files(&folder);
    assert!(bytes <= most, "{bytes} bytes of manifests, at most {most}");
    assert_eq!(attacker.counts.get("metadata-ingested"), None);
    scene.end(attacker, &before);
}

#[test]
fn locks_of_a_pod_on_its_own_files_lengthen_no_pass() {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let before = scene.node.usage();
    // The processes that make passes are among them.
    let ids = scene.node.process_ids();
    let read = || -> u64 { ids.iter().filter_map(|(_, id)| bytes_read(*id)).sum() };
    let Some(attacker) = scene.attack("locks", &[]) else {
        return;
    };
    let line = "1: OFDLCK ADVISORY  READ -1 00:19:2 0 0\n".len() as u64;
    let list = 250_000 * line;
    let (passes, begun) = (
        scene.node.metric("tetris_pass_duration_seconds_count"),
        read(),
    );
    let loads = scene.goes_on();
    let passes = scene.node.metric("tetris_pass_duration_seconds_count") - passes;
    // Loads are no part of passes.
    let per_pass = (read() - begun - loads * BYTES as u64) / passes as u64;
    // The bounded reading that counts holders is a sixth of the list.
    assert!(
        per_pass < list / 2,
        "a pass reads {per_pass} bytes, the list of locks has {list}"
    );
    scene.end(attacker, &before);
}

#[test]
fn posix_locks_on_objects_pin_their_own_store_alone() {
    nobody_else_notices("posix-locks", &[]);
}

/// The volume is a plain mount, as for pods with their own users and on kernels before 6.3.
#[test]
fn nothing_waits_for_leases_of_a_containers_root() {
    let options = Options {
        csi: "idmap = \"off\"",
        ..Options::default()
    };
    let Some(mut scene) = Scene::new(&options) else {
        return;
    };
    let before = scene.node.usage();
    // Something to take leases on.
    let mut first = Victim::start(&scene.hostile, Duration::from_millis(100));
    first.loads(&scene.node, 2);
    first.stop(&scene.node);
    let Some(attacker) = scene.attack("leases", &["--container-root"]) else {
        return;
    };
    let leases = attacker.counts.get("held").copied().unwrap_or_default();
    assert!(leases > 0, "{:?}", attacker.counts);
    scene.goes_on();
    scene.end(attacker, &before);
}

#[test]
fn on_an_idmapped_volume_a_containers_root_gets_no_lease() {
    let Some(scene) = Scene::new(&Options::default()) else {
        return;
    };
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let volume = format!(" {} ", scene.hostile.volume.display());
    let mount = mounts.lines().find(|line| line.contains(&volume)).unwrap();
    if !mount.contains(",idmapped") {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: this kernel maps no ids of a tmpfs"
        );
        return;
    }
    let before = scene.node.usage();
    let Some(attacker) = scene.attack("leases", &["--container-root"]) else {
        return;
    };
    assert_eq!(attacker.counts["held"], 0, "{:?}", attacker.counts);
    assert!(attacker.counts["refused"] > 0, "{:?}", attacker.counts);
    scene.end(attacker, &before);
}

#[test]
fn a_store_that_hoards_leaves_others_their_guarantee() {
    when_its_store_is_full("hoard", &Options::default());
}

#[test]
fn a_flood_of_tiny_files_leaves_others_their_inodes() {
    let options = Options {
        mount: "inodes = 1024",
        ..Options::default()
    };
    when_its_store_is_full("inodes", &options);
}

#[test]
fn slow_and_hung_files_take_no_turn_of_others() {
    nobody_else_notices("slow", &[]);
}

#[test]
fn files_that_cannot_be_read_leave_nothing_in_the_store() {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let before = scene.node.usage();
    let Some(mut attacker) = scene.attack("broken", &[]) else {
        return;
    };
    attacker.rounds(3);
    scene.goes_on();
    let refused = attacker
        .counts
        .keys()
        .all(|kind| kind.starts_with("refused-"));
    assert!(
        refused && !attacker.counts.is_empty(),
        "{:?}",
        attacker.counts
    );
    let objects = files(&scene.node.store("blue", 1).join("objects-v1"));
    assert_eq!(objects, (0, 0), "bytes and number of objects");
    scene.end(attacker, &before);
}

#[test]
fn connections_of_many_users_keep_no_other_store_out() {
    nobody_else_notices("connections", &["--container-root"]);
}

#[test]
fn a_sidecar_by_another_user_changes_no_load() {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let before = scene.node.usage();
    // The attacker may create files beside the victim's.
    let models = scene.victim.scratch.clone();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&models, all).unwrap();
    let path = models.display().to_string();
    let Some(mut attacker) = scene.attack("sidecar", &["--models", &path]) else {
        return;
    };
    // Until one was there in time.
    while attacker.look() == 0 || !attacker.counts.contains_key("planted") {
        scene.goes_on();
    }
    scene.end(attacker, &before);
}

#[test]
fn files_that_say_they_are_others_are_not_taken_for_them() {
    nobody_else_notices("identities", &[]);
}

#[test]
fn floods_of_the_ports_keep_no_probe_out() {
    nobody_else_notices("http", &[]);
}

#[test]
fn descriptors_of_every_kind_are_refused_and_closed() {
    nobody_else_notices("descriptors", &[]);
}

#[test]
fn malformed_messages_end_their_own_connection() {
    nobody_else_notices("frames", &[]);
}

/// A connection held for longer than the limits say is a wrong result of the attack itself.
#[test]
fn clients_that_do_not_read_or_send_a_byte_a_second_are_cut_off() {
    let options = Options {
        has_shipped_limits: true,
        ..Options::default()
    };
    let Some(mut scene) = Scene::new(&options) else {
        return;
    };
    let before = scene.node.usage();
    let Some(mut attacker) = scene.attack("unread", &[]) else {
        return;
    };
    scene.goes_on();
    // Until each kind has come to its limit.
    let ended = ["message-ended", "answers-ended", "head-ended", "page-ended"];
    while !ended.iter().all(|kind| attacker.counts.contains_key(*kind)) {
        attacker.rounds(1);
    }
    scene.goes_on();
    scene.memory_returns(&before);
    scene.end(attacker, &before);
}

/// A pod that declares what it does not map: the daemon keeps it, within the pod's own store.
#[test]
fn declared_models_that_nobody_maps_take_no_guarantee() {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let agent = Agent::open_store(&scene.hostile.volume).unwrap();
    let options = LoadOptions::default().with_min_shared_bytes(0);
    let path = scene.hostile.scratch.join("declared");
    let mut declared = Vec::new();
    // Until its store has no room; each model is let go of at once.
    for seed in 0..64 {
        tetris_attacks::model::write(&path, seed, 6 * MIB as usize).unwrap();
        let model = agent.load_with(&path, &options).unwrap();
        if model.report().bytes_private > 0 {
            break;
        }
        let manifests = model.manifests().filter_map(|(_, manifest)| manifest);
        declared.extend(manifests.map(|manifest| format!("manifest:{manifest}")));
        let list = declared.join(",");
        scene
            .node
            .api
            .run_pod("node-1", "blue", &format!("declares-{seed}"), &list);
        let warm = declared.len() as f64;
        scene.node.eventually("it is kept warm", |node| {
            node.metric("tetris_store_warm_models") >= warm
        });
    }
    // The store's share of the node's 128 MiB.
    let most = 128 * MIB * 60 / 100 / (6 * MIB);
    tell(&format!("{} models declared", declared.len()));
    assert!(
        declared.len() > 1 && declared.len() as u64 <= most,
        "{declared:?}"
    );
    scene.goes_on();
    scene.goes_on();
    scene.node.stop();
}

/// Two tenants have a namespace of one name, one after the other.
#[test]
fn a_namespace_made_again_gets_nothing_of_its_predecessor() {
    let Some(mut scene) = Scene::new(&Options::default()) else {
        return;
    };
    let mut first = Victim::start(&scene.hostile, Duration::from_millis(100));
    first.loads(&scene.node, 2);
    first.stop(&scene.node);
    let old = scene.node.store("blue", 1);
    assert!(files(&old.join("objects-v1")).1 > 0);
    scene.node.api.make("blue");
    let later = scene.node.pod("blue", "later", USER);
    assert_eq!(files(&later.volume.join("objects-v1")), (0, 0));
    scene.goes_on();
    scene.node.unpublish(&scene.hostile);
    scene
        .node
        .eventually("the predecessor's store goes", |_| !old.exists());
    scene.node.stop();
}
