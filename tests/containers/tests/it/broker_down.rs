//! Without the daemon, a load takes private memory and reports it; with it again, loads are shared.

use tetris_container_tests::model::Spec;

use crate::host::Host;
use crate::node::{Node, Settings};
use crate::pod::{Pod, downloads};
use crate::wait::until_so;

const SETTINGS: Settings = Settings {
    mib: 64,
    inodes: 10_000,
    expires: true,
};
const SPEC: Spec = Spec::mib(4, 8);

#[test]
fn a_load_without_the_daemon_is_private_and_says_so_and_the_next_with_it_is_shared() {
    let Some(host) = Host::new() else { return };
    let models = downloads(&host, 2, SPEC);
    let node = Node::start(&host, SETTINGS);
    let volume = node.publish("a", "team");
    node.wait_for_socket("team");
    node.kill();
    let pod = Pod::new(&host, 1001, 64).with_store(&volume);
    let alone = pod.with_models(&models[0]).load(SPEC);
    let loaded = alone.loaded();
    assert_eq!(
        (loaded.bytes_shared, loaded.bytes_private),
        (0, SPEC.bytes())
    );
    assert!(loaded.private_reason.is_some(), "{loaded:?}");
    until_so("it says so", || {
        let stderr = alone.container.stderr();
        stderr.contains("could not hold a model") && stderr.contains("no daemon")
    });

    node.start_again();
    node.wait_for_socket("team");
    let pod = Pod::new(&host, 1002, 64).with_store(&volume);
    let shared = pod.with_models(&models[1]).load(SPEC);
    let loaded = shared.loaded();
    assert_eq!(
        (
            loaded.recognized.as_str(),
            loaded.bytes_shared,
            loaded.bytes_private
        ),
        ("brokered", SPEC.bytes(), 0)
    );
    let stderr = shared.container.stderr();
    assert!(
        stderr.lines().count() == 1
            && stderr.contains("models are shared through the tensor store"),
        "{stderr}"
    );
    alone.end();
    shared.end();
}
