//! The node's container owns the tmpfs: it mounts it where the host sees it, and neither its death nor an update takes anything away.

use tetris_container_tests::model::Spec;

use crate::host::{Host, mounted_at};
use crate::node::{Node, Settings, held, objects};
use crate::pod::{Pod, downloads, mib};

const SETTINGS: Settings = Settings {
    mib: 64,
    inodes: 10_000,
    expires: true,
};
const SPEC: Spec = Spec::mib(1, 8);

#[test]
fn death_and_update_of_the_nodes_container_leave_mount_objects_and_references() {
    let Some(host) = Host::new() else { return };
    let models = downloads(&host, 3, SPEC);
    let node = Node::start(&host, SETTINGS);
    let entry = mounted_at(&host.stores()).expect("the host sees the tmpfs");
    assert_eq!(entry.fs_type, "tmpfs");
    for option in ["nosuid", "nodev", "noexec"] {
        assert!(entry.has(option), "{entry:?}");
    }

    let volume = node.publish("a", "team");
    let pod = Pod::new(&host, 1001, 64).with_store(&volume);
    let first = pod.with_models(&models[0]).load(SPEC);
    assert_eq!(first.loaded().bytes_private, 0);
    let store = node.store("team");
    let before = held(&store);
    assert_eq!(before.len(), objects(&store).len());

    node.kill();
    assert_eq!(mounted_at(&host.stores()).unwrap().id, entry.id);
    assert_eq!(held(&store), before, "while there is no daemon");
    node.start_again();
    node.wait_for_socket("team");
    assert_eq!(mounted_at(&host.stores()).unwrap().id, entry.id);
    // The volume of before is there still, and one more can be had.
    let pod = Pod::new(&host, 1002, 64).with_store(&volume);
    let second = pod.with_models(&models[1]).load(SPEC);
    assert_eq!(second.loaded().bytes_shared, SPEC.bytes());
    assert_eq!(held(&store), before, "after the restart");

    let larger = Settings {
        mib: 96,
        ..SETTINGS
    };
    let node = node.replace(larger);
    node.wait_for_socket("team");
    assert_eq!(mounted_at(&host.stores()).unwrap().id, entry.id);
    assert_eq!(bytes_of(&host), mib(larger.mib));
    let volume = node.publish("c", "team");
    let pod = Pod::new(&host, 1003, 64).with_store(&volume);
    let third = pod.with_models(&models[2]).load(SPEC);
    assert_eq!(third.loaded().bytes_shared, SPEC.bytes());
    assert_eq!(held(&store), before, "after the update");

    drop(node);
    assert_eq!(mounted_at(&host.stores()).unwrap().id, entry.id);
    for server in [first, second, third] {
        server.end();
    }
    assert_eq!(
        objects(&store).len(),
        before.len(),
        "nobody is left to free them"
    );
}

fn bytes_of(host: &Host) -> u64 {
    let stat = nix::sys::statvfs::statvfs(&host.stores()).unwrap();
    stat.blocks() * stat.fragment_size()
}
