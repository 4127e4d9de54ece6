//! Pods of a node share one copy, and the daemon is charged for it.

use std::io::Write;

use tetris_container_tests::model::Spec;

use crate::cgroup::MemoryCgroup;
use crate::host::Host;
use crate::node::{Node, Settings, held, objects};
use crate::pod::{Pod, downloads, mib};
use crate::wait::until_so;

const SETTINGS: Settings = Settings {
    // A namespace may have 60 % of it.
    mib: 256,
    inodes: 10_000,
    expires: true,
};
const SPEC: Spec = Spec::mib(2, 96);
const LIMIT_MIB: u64 = 32;
const PODS: u32 = 4;

#[test]
fn pods_limited_to_a_third_of_their_model_hold_one_copy_that_the_daemon_pays_for() {
    let Some(host) = Host::new() else { return };
    let models = downloads(&host, PODS, SPEC);
    let node = Node::start(&host, SETTINGS);
    let charged = MemoryCgroup::of(node.container.pid());
    let before = charged.usage();
    let mut servers = Vec::new();
    for (model, uid) in models.iter().zip(1001..) {
        let volume = node.publish(&format!("pod-{uid}"), "team");
        let pod = Pod::new(&host, uid, LIMIT_MIB).with_store(&volume);
        servers.push(pod.with_models(model).load(SPEC));
    }
    let mut peaks = Vec::new();
    for server in &servers {
        let loaded = server.loaded();
        assert_eq!(
            (loaded.bytes_shared, loaded.bytes_private, loaded.bytes_read),
            (SPEC.bytes(), 0, 0),
            "{loaded:?}"
        );
        let cgroup = MemoryCgroup::of(server.container.pid());
        peaks.push(cgroup.peak().unwrap_or_else(|| cgroup.usage()));
    }
    let store = node.store("team");
    let one_copy: u64 = objects(&store).iter().map(|object| object.allocated).sum();
    let node_charge = charged.usage() - before;
    tell(&peaks, one_copy, node_charge);
    assert!((SPEC.bytes()..SPEC.bytes() * 11 / 10).contains(&one_copy));
    assert!(
        peaks.iter().sum::<u64>() < SPEC.bytes(),
        "less than one copy in all"
    );
    assert!(node_charge >= SPEC.bytes(), "the daemon wrote it");
    assert_eq!(held(&store).len(), objects(&store).len());

    // Three leave, and nothing happens to the fourth; it leaves, and all goes.
    let last = servers.pop().unwrap();
    servers.into_iter().for_each(crate::pod::Server::end);
    assert_eq!(held(&store).len(), objects(&store).len());
    last.end();
    until_so("what nobody holds is freed", || objects(&store).is_empty());
}

/// The limit is one: without the store the same model ends the same container.
#[test]
fn a_pod_without_the_store_cannot_load_what_its_limit_has_no_room_for() {
    let Some(host) = Host::new() else { return };
    let model = host.download("alone", SPEC);
    let pod = Pod::new(&host, 1001, LIMIT_MIB).with_models(&model);
    let server = pod.load_with(SPEC, &["--store", "/nonexistent", "--once"]);
    // SIGKILL, which the kernel alone sends here. Docker may miss whether it was for want of memory.
    assert_eq!(server.container.ended(), 137);
    // With room for it, it does.
    let roomy = Pod::new(&host, 1001, 2 * SPEC.bytes() / mib(1)).with_models(&model);
    let server = roomy.load_with(SPEC, &["--store", "/nonexistent", "--once"]);
    assert_eq!(server.loaded().bytes_private, SPEC.bytes());
}

/// On standard error, where it is seen although the test passes.
fn tell(peaks: &[u64], one_copy: u64, node_charge: u64) {
    let shown = |bytes: u64| format!("{:.1}", bytes as f64 / mib(1) as f64);
    let shown_peaks: Vec<_> = peaks.iter().map(|peak| shown(*peak)).collect();
    let sum = shown(peaks.iter().sum());
    let _ = writeln!(
        std::io::stderr(),
        "MiB: a model of {}; peaks of {PODS} pods limited to {LIMIT_MIB}: {}, in all {sum}; the copy in the store {}; charged to the daemon for it {}",
        shown(SPEC.bytes()),
        shown_peaks.join(", "),
        shown(one_copy),
        shown(node_charge),
    );
}
