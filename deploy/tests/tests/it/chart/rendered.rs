//! Every combination of values as Helm renders it: valid, the same objects as the overlays, and in any namespace.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tetris_deploy_tests::chart::{COMBINATIONS, Combination};
use tetris_deploy_tests::helm::Helm;
use tetris_deploy_tests::kustomize::RENDERED;
use tetris_deploy_tests::objects::{Objects, text};
use tetris_deploy_tests::skipped::skipped;
use tetris_gateway::config::Config as GatewayConfig;
use tetris_node::config::ConfigFile;

use super::{folder, helm};
use crate::daemon::Daemon;
use crate::schemas::{CANNOT, validate};

const SYSTEM: &str = "tetris-system";

fn render(helm: &Helm, combination: &Combination, namespace: &str) -> Objects {
    let objects = helm.objects(&folder(), namespace, combination.values);
    objects.unwrap_or_else(|error| panic!("{}: {error:#}", combination.name))
}

/// Objects by kind and name, as far as chart and overlay have to agree.
fn comparable(objects: Objects) -> BTreeMap<String, Value> {
    let objects = objects.without_hashes().0.into_iter();
    let named = objects.map(|mut object| {
        let name = format!(
            "{} {}",
            text(&object["kind"]),
            text(&object["metadata"]["name"])
        );
        normalize(&name, &mut object);
        (name, object)
    });
    // Helm makes it, with `--create-namespace`.
    named
        .filter(|(name, _)| name != "Namespace tetris-system")
        .collect()
}

fn normalize(name: &str, object: &mut Value) {
    match name {
        "ConfigMap tetris-node" => {
            let file = text(&object["data"]["node.toml"]);
            let parsed = ConfigFile::parse(file, Path::new("node.toml"));
            let parsed = parsed.unwrap_or_else(|error| panic!("{error}\n{file}"));
            object["data"]["node.toml"] = format!("{parsed:?}").into();
        }
        "ConfigMap tetris-gateway" => {
            let file = text(&object["data"]["gateway.toml"]);
            let parsed = GatewayConfig::parse(file);
            let parsed = parsed.unwrap_or_else(|error| panic!("{error}\n{file}"));
            object["data"]["gateway.toml"] = format!("{parsed:?}").into();
        }
        _ => {}
    }
    // Annotations for Helm, and checksums in the place of kustomize's hashes.
    let annotations = [
        "/metadata/annotations",
        "/spec/template/metadata/annotations",
    ];
    for path in annotations {
        let fields = object.pointer_mut(path).and_then(Value::as_object_mut);
        let Some(fields) = fields else { continue };
        fields.retain(|key, _| !key.starts_with("checksum/") && !key.starts_with("helm.sh/"));
        if fields.is_empty() {
            let parent = path.trim_end_matches("/annotations");
            let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.and_then(|fields| fields.remove("annotations"));
        }
    }
    normalize_fields(object);
}

/// Lists whose order means nothing. A patch of kustomize puts the items that it changes first.
const UNORDERED: [&str; 3] = ["containers", "volumes", "volumeMounts"];

/// Orders lists without an order, and takes the chart's tag from images of ours: the overlays name none.
fn normalize_fields(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize_fields),
        Value::Object(fields) => {
            for (key, field) in fields {
                let items = field
                    .as_array_mut()
                    .filter(|_| UNORDERED.contains(&key.as_str()));
                if let Some(items) = items {
                    items.sort_by_key(|item| {
                        let path = text(&item["mountPath"]).to_owned();
                        (path, text(&item["name"]).to_owned())
                    });
                }
                let tag = format!(":{}", env!("CARGO_PKG_VERSION"));
                match field.as_str().and_then(|image| image.strip_suffix(&tag)) {
                    Some(image) if key == "image" => *field = json!(image),
                    _ => normalize_fields(field),
                }
            }
        }
        _ => {}
    }
}

/// The first place where two values differ, with both.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
    match (found, expected) {
        (Value::Object(fields), Value::Object(others)) if fields.keys().eq(others.keys()) => {
            let mut fields = fields.iter();
            fields
                .find_map(|(key, field)| difference(&format!("{path}/{key}"), field, &others[key]))
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let mut items = items.iter().zip(others).enumerate();
            items.find_map(|(index, (item, other))| {
                difference(&format!("{path}/{index}"), item, other)
            })
        }
        _ if found == expected => None,
        _ => Some(format!("{path}: expected {expected}, found {found}")),
    }
}

#[test]
fn objects_are_those_of_the_overlays() {
    let Some(helm) = helm() else { return };
    let mut compared = 0;
    for combination in &COMBINATIONS {
        if combination.golden.is_empty() {
            continue;
        }
        let chart = comparable(render(&helm, combination, SYSTEM));
        let overlays = combination
            .golden
            .iter()
            .map(|name| Objects::golden(name).0);
        let mut overlays = comparable(Objects(overlays.flatten().collect()));
        for (name, object) in &chart {
            let expected = overlays.remove(name);
            let expected = expected.unwrap_or_else(|| panic!("{combination:?}: {name} is new"));
            let difference = difference("", object, &expected);
            assert_eq!(difference, None, "{}: {name}", combination.name);
            compared += 1;
        }
        let missing: Vec<_> = overlays.keys().collect();
        assert!(missing.is_empty(), "{}: no {missing:?}", combination.name);
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn every_overlay_has_its_combination() {
    let overlays = RENDERED
        .iter()
        .filter(|(_, folder)| folder.starts_with("overlays/"));
    for (name, _) in overlays {
        let mut combinations = COMBINATIONS.iter();
        assert!(
            combinations.any(|combination| combination.golden.contains(name)),
            "no combination of the chart's values is the overlay {name}"
        );
    }
}

#[test]
fn every_combination_is_valid_and_its_daemon_accepts_its_configuration() {
    let Some(helm) = helm() else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = COMBINATIONS.iter().enumerate().map(|(index, combination)| {
        let objects = render(&helm, combination, SYSTEM);
        let config = Daemon::of(&objects).config(&objects);
        assert_eq!(config.file.node.as_deref(), Some("node-1"));
        let path = dir.path().join(format!("{index}.yaml"));
        let documents = objects.0.iter().map(|object| format!("---\n{object}\n"));
        std::fs::write(&path, documents.collect::<String>()).unwrap();
        path
    });
    let files: Vec<_> = files.collect();
    let paths: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    let output = validate(&paths);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(CANNOT) {
        return skipped(errors.trim());
    }
    assert!(output.status.success(), "{errors}");
}

#[test]
fn another_namespace_is_in_every_name_of_it() {
    let Some(helm) = helm() else { return };
    for combination in &COMBINATIONS {
        let chart = folder();
        let rendered = |namespace: &str| helm.template(&chart, namespace, combination.values);
        let elsewhere = rendered("models").unwrap();
        assert!(!elsewhere.contains(SYSTEM), "{}", combination.name);
        // Checksums are of the configuration, which has the name of the scaler's account.
        let lines = |text: &str| {
            let lines = text.lines().filter(|line| !line.contains("checksum/"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let here = rendered(SYSTEM).unwrap().replace(SYSTEM, "models");
        assert_eq!(lines(&elsewhere), lines(&here), "{}", combination.name);
    }
}

#[test]
fn values_are_where_they_belong() {
    let Some(helm) = helm() else { return };
    let combination = COMBINATIONS.iter().find(|found| found.name == "everything");
    let objects = render(&helm, combination.unwrap(), SYSTEM);
    for pods in objects.pods() {
        for container in pods.containers() {
            let image = text(&container["image"]);
            assert!(
                image.starts_with("registry.example.com/"),
                "{}: {image}",
                pods.name()
            );
        }
        assert_eq!(
            pods.spec["imagePullSecrets"],
            json!([{"name": "registry"}]),
            "{}",
            pods.name()
        );
    }
    let daemon = Daemon::of(&objects);
    assert_eq!(daemon.memory_limit(), 32 << 30);
    let config = daemon.config(&objects);
    assert_eq!(
        config.file.csi.unwrap().kubelet_dir,
        Path::new("/data/kubelet")
    );
    assert_eq!(config.file.gpu_mirror.unwrap().device_bytes, 32 << 30);
    let tolerations = daemon.pods.spec["tolerations"].to_string();
    for key in ["nvidia.com/gpu", "models"] {
        assert!(tolerations.contains(key), "{tolerations}");
    }
    let annotations = &daemon.pods.metadata["annotations"];
    assert!(annotations["checksum/config"].is_string(), "{annotations}");
    assert!(annotations["checksum/traces"].is_string(), "{annotations}");
    for object in objects.all("CustomResourceDefinition") {
        let policy = &object["metadata"]["annotations"]["helm.sh/resource-policy"];
        assert_eq!(policy, "keep");
    }
    let gateway = objects.one("ConfigMap", "tetris-gateway");
    let gateway = GatewayConfig::parse(text(&gateway["data"]["gateway.toml"])).unwrap();
    assert!(gateway.tls.is_some());
    assert_eq!(gateway.callers.proxy_namespaces, ["proxies"]);
    let scaler = objects.one("NetworkPolicy", "tetris-scaler").to_string();
    assert!(
        scaler.contains("8080") && scaler.contains("metrics"),
        "{scaler}"
    );
}

#[test]
fn a_changed_configuration_rolls_the_daemon() {
    let Some(helm) = helm() else { return };
    let checksum = |values: &str| {
        let objects = helm.objects(&folder(), SYSTEM, values).unwrap();
        let daemon = objects.one("DaemonSet", "tetris-node");
        daemon["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    let before = checksum("{}");
    assert_eq!(before, checksum("webhook: {enabled: true}"));
    assert_ne!(before, checksum("node: {config: {interval_secs: 5}}"));
}

#[test]
fn lint_finds_nothing() {
    let Some(helm) = helm() else { return };
    let chart = folder().display().to_string();
    for combination in &COMBINATIONS {
        helm.run(&["lint", "--strict", &chart], combination.values)
            .unwrap_or_else(|error| panic!("{}: {error:#}", combination.name));
    }
}
