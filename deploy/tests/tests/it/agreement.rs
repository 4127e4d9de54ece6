//! Names that stand in several manifests are the same in all of them, and in the programs.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tetris_deploy_tests::kustomize::{INSTALLS, RENDERED};
use tetris_deploy_tests::objects::{Objects, list, pairs, text};

use crate::daemon::Daemon;

/// The mount of a container with the longest path that `path` lies in.
fn mount_of<'a>(container: &'a Value, path: &Path) -> &'a Value {
    let mounts = list(&container["volumeMounts"]).iter();
    let around = mounts.filter(|mount| path.starts_with(text(&mount["mountPath"])));
    let closest = around.max_by_key(|mount| text(&mount["mountPath"]).len());
    closest.unwrap_or_else(|| panic!("nothing is mounted around {}", path.display()))
}

/// That a path in the container is the same directory of the host, and whether mounts in it are seen there.
fn require_host(daemon: &Daemon<'_>, path: &Path, bidirectional: bool) {
    let mount = mount_of(daemon.process("volumes").container, path);
    let volume = daemon.pods.volume(&mount["name"]);
    assert_eq!(
        volume["hostPath"]["path"],
        mount["mountPath"],
        "{}",
        path.display()
    );
    let expected = if bidirectional {
        "Bidirectional".into()
    } else {
        Value::Null
    };
    assert_eq!(mount["mountPropagation"], expected, "{}", path.display());
    assert_eq!(mount["readOnly"], Value::Null, "{}", path.display());
}

#[test]
fn the_daemon_sees_the_hosts_directories_where_it_looks_for_them() {
    for name in INSTALLS {
        let objects = Objects::golden(name);
        let daemon = Daemon::of(&objects);
        let config = daemon.config(&objects);
        // A mount is made in what is shared with the host, not on it.
        let tmpfs = config.tables.mount.expect(name).path;
        require_host(&daemon, tmpfs.parent().expect(name), true);
        if let Some(csi) = config.file.csi {
            require_host(&daemon, &csi.kubelet_dir.join("pods"), true);
            require_host(&daemon, csi.socket().parent().expect(name), false);
            require_host(
                &daemon,
                csi.registration_socket().parent().expect(name),
                false,
            );
        }
    }
}

#[test]
fn the_driver_has_one_name() {
    for name in INSTALLS {
        let objects = Objects::golden(name);
        let config = Daemon::of(&objects).config(&objects);
        let drivers = objects
            .all("CSIDriver")
            .map(|driver| text(&driver["metadata"]["name"]));
        let configured = config.file.csi.map(|csi| csi.driver);
        assert_eq!(
            drivers.collect::<Vec<_>>(),
            configured.iter().collect::<Vec<_>>(),
            "{name}"
        );
    }
    let objects = Objects::golden("node");
    let driver = objects.one("CSIDriver", "csi.tetris.dev");
    for (field, expected) in [
        ("attachRequired", false.into()),
        ("podInfoOnMount", true.into()),
        ("volumeLifecycleModes", serde_json::json!(["Ephemeral"])),
        ("fsGroupPolicy", "None".into()),
        ("seLinuxMount", false.into()),
        ("requiresRepublish", false.into()),
    ] {
        assert_eq!(driver["spec"][field], expected, "{field}");
    }
    let labels = pairs(&driver["metadata"]["labels"]);
    assert!(labels.contains(&(
        "security.openshift.io/csi-ephemeral-volume-profile",
        "restricted"
    )));
}

/// Agents look there by default.
#[test]
fn pods_have_the_store_where_agents_look_for_it() {
    let mut daemon_sets = 0;
    for (name, _) in RENDERED.iter().filter(|(name, _)| !INSTALLS.contains(name)) {
        let objects = Objects::golden(name);
        // The scaler mounts it for its own.
        let pods = objects.pods().into_iter();
        for pods in pods.filter(|pods| !pods.are_of_a_function()) {
            let mut mounts = pods
                .containers()
                .flat_map(|container| list(&container["volumeMounts"]));
            let mount = mounts
                .find(|mount| mount["name"] == "tetris-store")
                .expect(name);
            assert_eq!(
                mount["mountPath"],
                tetris_agent::store_location::MOUNT_POINT,
                "{name}"
            );
            assert_eq!(mount["readOnly"], true, "{name}");
            daemon_sets += 1;
        }
    }
    assert!(daemon_sets >= 5, "{daemon_sets}");
}

fn selects(selector: &Value, labels: &Value) -> bool {
    if let Some(values) = values(selector) {
        let label = text(&selector["matchExpressions"][0]["key"]);
        return values.contains(&labels[label]);
    }
    let wanted = pairs(&selector["matchLabels"]);
    !wanted.is_empty() && wanted.iter().all(|pair| pairs(labels).contains(pair))
}

/// Values of a label that a selector lists.
fn values(selector: &Value) -> Option<&Vec<Value>> {
    selector["matchExpressions"][0]["values"].as_array()
}

#[test]
fn selectors_match_the_labels_of_their_pods() {
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for pods in objects
            .pods()
            .iter()
            // A Job makes its own; a PodTemplate has none.
            .filter(|pods| !["Pod", "Job", "PodTemplate"].contains(&text(&pods.object["kind"])))
            .filter(|pods| !pods.are_of_a_function())
        {
            let selector = &pods.object["spec"]["selector"];
            assert!(
                selects(selector, &pods.metadata["labels"]),
                "{name}: {}",
                pods.name()
            );
        }
        for (kind, field) in [
            ("NetworkPolicy", "podSelector"),
            ("PodDisruptionBudget", "selector"),
        ] {
            for object in objects.all(kind) {
                let selector = &object["spec"][field];
                let selected = objects
                    .pods()
                    .iter()
                    .filter(|pods| selects(selector, &pods.metadata["labels"]))
                    .count();
                let expected = values(selector).map_or(1, Vec::len);
                let object_name = &object["metadata"]["name"];
                assert_eq!(selected, expected, "{name}: {kind} {object_name}");
            }
        }
    }
}

#[test]
fn monitors_find_the_pods_and_their_ports() {
    let (mut all, monitors) = (Objects::golden("webhook"), Objects::golden("monitoring"));
    let gateway = Objects::golden("gateway");
    for name in ["tetris-gateway", "tetris-scaler"] {
        all.0.push(gateway.one("Deployment", name).clone());
    }
    let mut monitored: Vec<_> = Vec::new();
    for monitor in monitors.all("PodMonitor") {
        for pods in all
            .pods()
            .iter()
            .filter(|pods| selects(&monitor["spec"]["selector"], &pods.metadata["labels"]))
        {
            let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
            require_port(pods.spec, text(port));
            monitored.push(pods.name());
        }
    }
    assert_eq!(
        monitored,
        [
            "Deployment tetris-gateway",
            "DaemonSet tetris-node",
            "Deployment tetris-scaler",
            "Deployment tetris-webhook"
        ]
    );
}

fn require_port(spec: &Value, port: &str) {
    let ports = list(&spec["containers"])
        .iter()
        .flat_map(|container| list(&container["ports"]));
    assert_eq!(
        ports.filter(|found| found["name"] == port).count(),
        1,
        "{port}"
    );
}

#[test]
fn ports_that_are_named_are_there() {
    for name in INSTALLS {
        let objects = Objects::golden(name);
        for pods in objects.pods() {
            for container in pods.containers() {
                for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                    // The kubelet looks a name up in the container alone.
                    if let Some(port) = container[probe]["httpGet"]["port"].as_str() {
                        let mut ports = list(&container["ports"]).iter();
                        assert!(ports.any(|found| found["name"] == port), "{name}: {port}");
                    }
                }
            }
            for policy in objects.all("NetworkPolicy") {
                if !selects(&policy["spec"]["podSelector"], &pods.metadata["labels"]) {
                    continue;
                }
                let ports = list(&policy["spec"]["ingress"])
                    .iter()
                    .flat_map(|rule| list(&rule["ports"]));
                ports.for_each(|port| require_port(pods.spec, text(&port["port"])));
            }
        }
    }
}

#[test]
fn the_webhook_is_reached_through_its_service_and_leaves_the_systems_pods_alone() {
    let objects = Objects::golden("webhook");
    let pods = objects.pods();
    let pods = pods
        .iter()
        .find(|pods| pods.name() == "Deployment tetris-webhook")
        .unwrap();
    let configuration = objects.one("MutatingWebhookConfiguration", "tetris-webhook");
    let webhooks = list(&configuration["webhooks"]).iter();
    let paths = webhooks.map(|webhook| text(&webhook["clientConfig"]["service"]["path"]));
    let expected = [
        tetris_webhook::http::POD_PATH,
        tetris_webhook::http::NAMESPACE_PATH,
        tetris_webhook::http::PYTHON_NAMESPACE_PATH,
        tetris_webhook::http::PLACEMENT_PATH,
    ];
    assert_eq!(paths.collect::<Vec<_>>(), expected);
    for webhook in list(&configuration["webhooks"]) {
        let to = &webhook["clientConfig"]["service"];
        let service = objects.one("Service", text(&to["name"]));
        assert_eq!(service["metadata"]["namespace"], to["namespace"]);
        assert_eq!(service["spec"]["ports"][0]["port"], to["port"]);
        require_port(pods.spec, text(&service["spec"]["ports"][0]["targetPort"]));
        let labels = pairs(&pods.metadata["labels"]);
        assert!(
            pairs(&service["spec"]["selector"])
                .iter()
                .all(|pair| labels.contains(pair))
        );
        assert_eq!(webhook["failurePolicy"], "Ignore");
        assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
        assert!(
            webhook["timeoutSeconds"]
                .as_u64()
                .is_some_and(|seconds| seconds <= 5)
        );
        let not = &webhook["namespaceSelector"]["matchExpressions"][0];
        assert_eq!(not["operator"], "NotIn");
        let excluded: Vec<_> = list(&not["values"]).iter().map(text).collect();
        assert_eq!(excluded, ["kube-system", "tetris-system"]);
    }
}

#[test]
fn a_change_of_the_configuration_rolls_the_daemon_one_node_at_a_time() {
    let name = |install| {
        let objects = Objects::golden(install);
        let daemon = Daemon::of(&objects);
        let strategy = &daemon.pods.object["spec"]["updateStrategy"];
        assert_eq!(strategy["type"], "RollingUpdate");
        assert_eq!(strategy["rollingUpdate"]["maxUnavailable"], 1);
        let config = daemon.pods.volume(&"config".into());
        text(&config["configMap"]["name"]).to_owned()
    };
    let names = ["node", "dedicated", "gpu"].map(name);
    assert!(names.iter().all(|name| name.starts_with("tetris-node-")));
    // Each has its own configuration.
    assert_eq!(BTreeSet::from(names).len(), 3);
}

#[test]
fn nodes_with_a_gpu_are_chosen_by_label_and_taint() {
    let objects = Objects::golden("gpu");
    let spec = Daemon::of(&objects).pods.spec;
    assert_eq!(spec["nodeSelector"]["nvidia.com/gpu.present"], "true");
    let toleration =
        serde_json::json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"});
    assert!(list(&spec["tolerations"]).contains(&toleration));
}

#[test]
fn nothing_uses_the_hosts_network_or_processes() {
    for (name, _) in RENDERED {
        for pods in Objects::golden(name).pods() {
            for field in ["hostNetwork", "hostPID", "hostIPC"] {
                assert_eq!(pods.spec[field], Value::Null, "{name}: {field}");
            }
        }
    }
}
