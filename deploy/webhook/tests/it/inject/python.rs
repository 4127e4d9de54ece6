//! The Python package beside the store.

use serde_json::{Value, json};
use tetris_webhook::inject::{InjectionOutcome, Options, OptionsError, Scope, inject};

use crate::inject::fixtures::{clean, injected, of_container, patched, pod, with};

const LABEL: &str = "/metadata/labels/tetris.dev~1inject";

fn labeled(name: &str) -> Value {
    with(pod(name), LABEL, json!("python"))
}

fn module_paths(container: &Value) -> Vec<Value> {
    let all = container["env"].as_array().cloned().unwrap_or_default();
    all.into_iter()
        .filter(|variable| variable["name"] == "PYTHONPATH")
        .collect()
}

#[test]
fn every_container_gets_the_package_and_the_store() {
    let after = clean(&labeled("init-and-sidecar"));
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let csi = json!({"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": {"content": "python"}});
    assert!(volumes.contains(&json!({"name": "tetris-python", "csi": csi})));
    for list in ["initContainers", "containers"] {
        for (index, container) in after["spec"][list].as_array().unwrap().iter().enumerate() {
            let mount = json!({"name": "tetris-python", "mountPath": "/run/tetris/python", "readOnly": true});
            assert!(
                container["volumeMounts"]
                    .as_array()
                    .unwrap()
                    .contains(&mount)
            );
            let path = json!({"name": "PYTHONPATH", "value": "/run/tetris/python"});
            assert_eq!(module_paths(container), [path]);
            assert_eq!(of_container(&after, list, index).0.len(), 1);
        }
    }
    assert_eq!(injected(&after).outcome, InjectionOutcome::Complete);
}

#[test]
fn the_label_true_adds_no_package() {
    let after = clean(&pod("minimal"));
    assert!(!after.to_string().to_lowercase().contains("python"));
}

#[test]
fn a_module_path_of_the_container_stays_and_comes_after_the_package() {
    let reference = json!({"configMapKeyRef": {"name": "paths", "key": "python"}});
    for own in [
        json!({"name": "PYTHONPATH", "value": "/app"}),
        json!({"name": "PYTHONPATH", "valueFrom": reference}),
    ] {
        let before = with(labeled("minimal"), "/spec/containers/0/env", json!([own]));
        let after = clean(&before);
        let ours = json!({"name": "PYTHONPATH", "value": "/run/tetris/python:$(PYTHONPATH)"});
        assert_eq!(module_paths(&after["spec"]["containers"][0]), [own, ours]);
        assert_eq!(injected(&after).outcome, InjectionOutcome::Complete);
    }
}

#[test]
fn what_keeps_the_package_out_leaves_the_store() {
    let taken = json!([{"name": "tetris-python", "emptyDir": {}}]);
    let volume = with(labeled("minimal"), "/spec/volumes", taken);
    let mount = json!([{"name": "own", "mountPath": "/run/tetris/python/lib"}]);
    let path = with(
        with(
            labeled("minimal"),
            "/spec/volumes",
            json!([{"name": "own", "emptyDir": {}}]),
        ),
        "/spec/containers/0/volumeMounts",
        mount,
    );
    for (before, expected) in [
        (volume, "another volume tetris-python; rename it"),
        (path, "without the Python package: it has another mount at"),
    ] {
        let injection = injected(&before);
        assert_eq!(injection.outcome, InjectionOutcome::Injected);
        let [warning] = &injection.warnings[..] else {
            panic!("{:?}", injection.warnings)
        };
        assert!(warning.contains(expected), "{warning}");
        let after = patched(&before, &injection);
        assert_eq!(of_container(&after, "containers", 0).0.len(), 1);
        assert!(module_paths(&after["spec"]["containers"][0]).is_empty());
        let volumes = after["spec"]["volumes"].as_array().unwrap();
        assert_eq!(volumes.len(), 2, "{volumes:?}");
    }
}

#[test]
fn a_volume_of_the_package_that_the_pod_has_is_used_and_is_no_store() {
    let volume = json!({"name": "modules", "csi": {"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": {"content": "python"}}});
    let before = with(labeled("minimal"), "/spec/volumes", json!([volume]));
    let after = clean(&before);
    let mounts = after["spec"]["containers"][0]["volumeMounts"].as_array();
    let names: Vec<_> = mounts
        .unwrap()
        .iter()
        .map(|mount| mount["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["tetris-store", "modules"]);
}

#[test]
fn containers_that_are_not_chosen_get_neither() {
    let annotations = json!({"tetris.dev/containers": "server", "tetris.dev/patch": "false"});
    let before = with(
        labeled("init-and-sidecar"),
        "/metadata/annotations",
        annotations,
    );
    let after = clean(&before);
    assert_eq!(module_paths(&after["spec"]["containers"][0]).len(), 1);
    assert!(module_paths(&after["spec"]["containers"][1]).is_empty());
    assert!(module_paths(&after["spec"]["initContainers"][0]).is_empty());
}

#[test]
fn a_namespace_can_have_the_label_and_a_pod_can_say_otherwise() {
    let without = with(pod("minimal"), "/metadata/labels", json!({}));
    let options = Options::default();
    let packages = |pod: &Value, scope| {
        let injection = inject(pod, scope, &options);
        injection.patch.0.iter().any(|operation| {
            let text = serde_json::to_string(operation).unwrap();
            text.contains("tetris-python")
        })
    };
    assert!(packages(&without, Scope::PythonNamespace));
    assert!(!packages(&without, Scope::Namespace));
    assert!(!packages(&pod("minimal"), Scope::PythonNamespace));
    let off = with(pod("minimal"), LABEL, json!("false"));
    let outcome = inject(&off, Scope::PythonNamespace, &options).outcome;
    assert_eq!(outcome, InjectionOutcome::NotAsked);
}

#[test]
fn an_unknown_value_names_all_known_ones() {
    let injection = injected(&with(pod("minimal"), LABEL, json!("Python")));
    assert_eq!(injection.outcome, InjectionOutcome::Refused);
    let expected = "expected \"true\", \"python\" or \"false\", found \"Python\"";
    assert!(injection.warnings[0].contains(expected));
}

#[test]
fn paths_of_both_mounts_are_checked() {
    let new = |store, python| Options::try_new("csi.tetris.dev", store, python);
    assert!(new("/run/tetris/store", "/opt/tetris").is_ok());
    for nested in ["/run/tetris/store", "/run/tetris/store/python", "/run"] {
        let error = new("/run/tetris/store", nested).unwrap_err();
        assert!(matches!(error, OptionsError::Nested { .. }), "{error}");
    }
    for bad in ["python", "/a:b", "/$(HOME)", "/"] {
        let error = new("/run/tetris/store", bad).unwrap_err();
        assert!(error.to_string().starts_with("--python-path"), "{error}");
    }
}
