//! The install with the GPU mirror: the daemon reaches every device, and takes none from pods.

use serde_json::Value;
use tetris_deploy_tests::kustomize::{INSTALLS, RENDERED};
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_node::gpu_mirror::Implementation;

use crate::daemon::Daemon;

#[test]
fn the_overlay_configures_a_mirror_over_the_driver() {
    let objects = Objects::golden("gpu");
    let config = Daemon::of(&objects).config(&objects);
    let table = config.file.gpu_mirror.unwrap();
    assert_eq!(table.implementation, Implementation::Cuda);
    assert!(table.devices.is_empty(), "all devices of the node");
    assert_eq!(table.socket_dir, None, "pods reach what is in the store");
    assert!(table.store_bytes.unwrap() < table.device_bytes);
    // Pods' stores come and go with their namespaces, and a quota is for each of them.
    assert!(config.file.csi.unwrap().per_namespace.is_some());
}

#[test]
fn the_daemon_sees_every_device_and_asks_the_scheduler_for_none() {
    let objects = Objects::golden("gpu");
    let daemon = Daemon::of(&objects);
    assert_eq!(daemon.pods.spec["runtimeClassName"], "nvidia");
    let mirror = daemon.process("mirror").container;
    let value = |name: &str| {
        let mut all = list(&mirror["env"]).iter();
        let variable = all.find(|variable| variable["name"] == name);
        variable.map_or("", |variable| text(&variable["value"]))
    };
    assert_eq!(value("NVIDIA_VISIBLE_DEVICES"), "all");
    assert_eq!(value("NVIDIA_DRIVER_CAPABILITIES"), "compute,utility");
    assert_eq!(text(&mirror["image"]), "tetris-node-gpu");
    let resources = mirror["resources"].to_string();
    assert!(!resources.contains("nvidia.com"), "{resources}");
    // The runtime gives devices to containers that ask for them.
    for process in daemon
        .processes()
        .filter(|process| process.name() != "mirror")
    {
        let env = process.container["env"].to_string();
        assert!(!env.contains("NVIDIA"), "{}", process.name());
    }
    let selector = &daemon.pods.spec["nodeSelector"];
    assert_eq!(selector["nvidia.com/gpu.present"], "true");
}

#[test]
fn no_other_install_has_a_mirror_or_needs_a_runtime() {
    for name in INSTALLS.into_iter().filter(|name| *name != "gpu") {
        let objects = Objects::golden(name);
        let daemon = Daemon::of(&objects);
        assert_eq!(daemon.config(&objects).file.gpu_mirror, None, "{name}");
        assert_eq!(daemon.pods.spec["runtimeClassName"], Value::Null, "{name}");
        for process in daemon.processes() {
            assert_eq!(text(&process.container["image"]), "tetris-node", "{name}");
        }
    }
    assert!(RENDERED.iter().any(|(name, _)| *name == "gpu"));
}
