//! Pod Security: what everybody's pods need is "restricted", and only the part of the daemon that mounts is privileged.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tetris_deploy_tests::kustomize::{RENDERED, RESTRICTED};
use tetris_deploy_tests::objects::{Objects, Pods, list, pairs, text};

/// Types of volumes that "restricted" permits, as far as they are used here.
const VOLUMES: [&str; 5] = [
    "configMap",
    "csi",
    "emptyDir",
    "persistentVolumeClaim",
    "projected",
];

/// The controls of Pod Security "restricted", as the documentation of Kubernetes lists them, for Linux.
fn require_restricted(pods: &Pods<'_>) {
    let (spec, name) = (pods.spec, pods.name());
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_eq!(spec[field], Value::Null, "{name}: {field}");
    }
    for volume in list(&spec["volumes"]) {
        let fields = volume
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "name");
        assert!(
            fields.clone().all(|kind| VOLUMES.contains(&kind.as_str())),
            "{name}: {volume}"
        );
    }
    let pod = &spec["securityContext"];
    assert_eq!(pod["runAsNonRoot"], true, "{name}");
    assert!(
        pod["runAsUser"].as_u64().is_some_and(|user| user != 0),
        "{name}"
    );
    assert_eq!(
        pod["seccompProfile"],
        json!({"type": "RuntimeDefault"}),
        "{name}"
    );
    for container in pods.containers() {
        require_restricted_container(container, &name);
    }
}

fn require_restricted_container(container: &Value, name: &str) {
    let context = &container["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}), "{name}");
    for field in [
        "privileged",
        "runAsUser",
        "runAsNonRoot",
        "seccompProfile",
        "procMount",
    ] {
        assert_eq!(context[field], Value::Null, "{name}: {field}");
    }
    for port in list(&container["ports"]) {
        assert_eq!(port["hostPort"], Value::Null, "{name}");
    }
}

#[test]
fn pods_with_the_volume_are_restricted() {
    for name in RESTRICTED {
        let objects = Objects::golden(name);
        assert!(!objects.pods().is_empty(), "{name}");
        for pods in objects.pods() {
            require_restricted(&pods);
            if pods.are_of_a_function() {
                // The scaler adds the volume.
                continue;
            }
            let volume = pods.volume(&"tetris-store".into());
            let expected = json!({"driver": "csi.tetris.dev", "readOnly": true});
            assert_eq!(volume["csi"], expected, "{name}");
        }
    }
}

#[test]
fn samples_declare_their_models() {
    for name in RESTRICTED
        .into_iter()
        .filter(|name| name.starts_with("sample-"))
        // No declaration names what vLLM makes of a model's files, a pull runs before its model is known, and a `Model` is kept anyway.
        .filter(|name| !["sample-model", "sample-pull", "sample-vllm"].contains(name))
    {
        let objects = Objects::golden(name);
        for pods in objects.pods() {
            let declared = text(&pods.metadata["annotations"]["tetris.dev/models"]);
            let parsed = tetris_node::kubernetes::parse_annotation(declared);
            assert!(
                parsed.left_out == 0 && parsed.models.len() == 1,
                "{name}: {parsed:?}"
            );
        }
    }
}

#[test]
fn webhook_scaler_and_gateway_are_restricted() {
    for (golden, name) in [
        ("webhook", "Deployment tetris-webhook"),
        ("scaler", "Deployment tetris-scaler"),
        ("scaler", "Deployment tetris-gates"),
        ("gateway", "Deployment tetris-gateway"),
    ] {
        let objects = Objects::golden(golden);
        let mut pods = objects.pods().into_iter();
        require_restricted(&pods.find(|pods| pods.name() == name).unwrap());
    }
}

#[test]
fn every_root_file_system_is_read_only_and_what_mounts_alone_is_privileged() {
    let mut privileged = BTreeSet::new();
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for pods in objects.pods() {
            assert_eq!(pods.spec["enableServiceLinks"], false, "{name}");
            for container in pods.containers() {
                let context = &container["securityContext"];
                assert_eq!(
                    context["readOnlyRootFilesystem"],
                    true,
                    "{name}: {}",
                    pods.name()
                );
                if context["privileged"] == true {
                    privileged.insert((pods.name(), text(&container["name"]).to_owned()));
                }
            }
        }
    }
    assert_eq!(
        privileged,
        BTreeSet::from([("DaemonSet tetris-node".to_owned(), "volumes".to_owned())])
    );
}

#[test]
fn namespaces_of_privileged_pods_say_so_and_others_do_not() {
    let level = |objects: &Objects, name| {
        let labels = &objects.one("Namespace", name)["metadata"]["labels"];
        let enforce = |(key, _): &(&str, &str)| *key == "pod-security.kubernetes.io/enforce";
        pairs(labels)
            .into_iter()
            .find(enforce)
            .map(|(_, level)| level.to_owned())
    };
    let (node, pods) = (Objects::golden("node"), Objects::golden("cluster-pods"));
    let function = Objects::golden("cluster-function");
    assert_eq!(
        level(&function, "tetris-e2e-scaler").as_deref(),
        Some("restricted")
    );
    assert_eq!(level(&node, "tetris-system").as_deref(), Some("privileged"));
    assert_eq!(level(&pods, "tetris-e2e").as_deref(), Some("restricted"));
}
