//! Every node.toml is one that the daemon accepts, with the flags and the environment that it would get.

use tetris_deploy_tests::kustomize::INSTALLS;
use tetris_deploy_tests::objects::{Objects, list, text};

use crate::daemon::Daemon;

#[test]
fn every_install_has_a_configuration_that_the_daemon_accepts() {
    for name in INSTALLS {
        let objects = Objects::golden(name);
        let daemon = Daemon::of(&objects);
        let config = daemon.config(&objects);
        // The same for each of them, with the flags that it gets.
        for process in daemon.processes() {
            assert_eq!(
                process.config(&objects).file,
                config.file,
                "{name}: {}",
                process.name()
            );
        }
        assert_eq!(config.file.node.as_deref(), Some("node-1"), "{name}");
        assert!(config.file.kubernetes.enabled, "{name}");
        assert!(config.file.ingest.enabled, "{name}");
        let mount = config.tables.mount.expect(name);
        for store in &config.file.stores {
            assert_eq!(store.path.parent(), Some(mount.path.as_path()), "{name}");
        }
        let listen = config.file.listen.expect(name);
        assert!(
            listen.ip().is_loopback(),
            "{name}: these pages are for nobody else"
        );
        let network = config.file.network;
        let ports = list(&daemon.process("cluster").container["ports"]);
        for (port, address) in [
            ("metrics", network.metrics),
            ("probes", network.probes),
            ("inventory", network.inventory),
        ] {
            let address = address.expect(name);
            assert!(address.ip().is_unspecified(), "{name}: {port}");
            let declared = ports
                .iter()
                .find(|found| found["name"] == port)
                .expect(name);
            assert_eq!(declared["containerPort"], address.port(), "{name}: {port}");
        }
        assert_eq!(ports.len(), 3, "{name}");
    }
}

#[test]
fn the_scaler_is_the_account_that_daemons_let_in() {
    let objects = Objects::golden("scaler");
    let config = Daemon::of(&objects).config(&objects);
    let scaler = objects.one("Deployment", "tetris-scaler");
    let namespace = text(&scaler["metadata"]["namespace"]);
    let account = text(&scaler["spec"]["template"]["spec"]["serviceAccountName"]);
    let expected = format!("system:serviceaccount:{namespace}:{account}");
    assert_eq!(config.file.network.inventory_clients, [expected]);
}

#[test]
fn by_default_each_namespace_has_a_store() {
    let objects = Objects::golden("node");
    let config = Daemon::of(&objects).config(&objects);
    let rule = config.file.csi.unwrap().per_namespace.unwrap();
    assert!(rule.namespaces.is_empty());
    assert!(config.file.stores.is_empty());
}

#[test]
fn dedicated_stores_are_for_the_namespaces_that_are_named() {
    let objects = Objects::golden("dedicated");
    let daemon = Daemon::of(&objects);
    let config = daemon.config(&objects);
    assert!(config.file.csi.as_ref().unwrap().per_namespace.is_none());
    let stores = &config.file.stores;
    assert!(stores.iter().all(|store| !store.namespaces.is_empty()));
    assert!(stores.iter().any(|store| store.namespaces.len() > 1));
    let size = config.tables.mount.unwrap().size_bytes;
    let policies = stores.iter().map(|store| config.policy.of(&store.name));
    let guaranteed: u64 = policies.clone().map(|policy| policy.guaranteed_bytes).sum();
    assert!(
        guaranteed > 0 && guaranteed <= size,
        "{guaranteed} of {size}"
    );
    assert!(
        policies
            .filter_map(|policy| policy.limit_bytes)
            .all(|limit| limit <= size)
    );
}

#[test]
fn development_has_one_fixed_store_and_no_driver() {
    let objects = Objects::golden("development");
    let config = Daemon::of(&objects).config(&objects);
    assert!(config.file.csi.is_none());
    assert_eq!(objects.all("CSIDriver").count(), 0);
    let [store] = config.file.stores.as_slice() else {
        panic!("expected one store, found {:?}", config.file.stores);
    };
    let pods = Objects::golden("sample-development");
    let pods = pods.pods().into_iter().next().unwrap();
    let volume = pods.volume(&"tetris-store".into());
    assert_eq!(volume["hostPath"]["path"], store.path.to_str().unwrap());
    // Of another type, the pod could start before the store is there, and mount an empty directory.
    assert_eq!(volume["hostPath"]["type"], "Directory");
}
