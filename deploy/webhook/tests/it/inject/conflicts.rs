//! Conflicts: the pod stays as it is in that respect, and its author gets a warning.

use serde_json::{Value, json};
use tetris_webhook::inject::{InjectionOutcome, MAX_WARNINGS};

use crate::inject::fixtures::{injected, of_container, patched, pod, refused, with};

/// A pod with one container that has this mount, of a volume with this source.
fn mounting(mount: &Value, source: &str) -> Value {
    let mut mount = mount.clone();
    mount["name"] = json!("other");
    let pod = with(
        pod("minimal"),
        "/spec/volumes",
        json!([{"name": "other", source: {}}]),
    );
    with(pod, "/spec/containers/0/volumeMounts", json!([mount]))
}

#[test]
fn another_volume_of_the_name_stays_and_nothing_is_injected() {
    let warning = refused(&pod("other-volume"));
    assert!(
        warning.contains("another volume tetris-store") && warning.contains("rename"),
        "{warning}"
    );
}

#[test]
fn another_volume_of_the_name_does_not_matter_when_there_is_one_of_the_driver() {
    let volumes = json!([
        {"name": "tetris-store", "emptyDir": {}},
        {"name": "weights", "csi": {"driver": "csi.tetris.dev", "readOnly": true}},
    ]);
    let before = with(pod("minimal"), "/spec/volumes", volumes.clone());
    let injection = injected(&before);
    assert_eq!(injection.warnings, [""; 0]);
    let after = patched(&before, &injection);
    assert_eq!(after["spec"]["volumes"], volumes);
    assert_eq!(
        after["spec"]["containers"][0]["volumeMounts"][0]["name"],
        "weights"
    );
}

#[test]
fn a_container_with_another_mount_there_is_left_alone_and_others_are_not() {
    let before = pod("path-taken");
    let injection = injected(&before);
    assert_eq!(injection.outcome, InjectionOutcome::Injected);
    let [warning] = &injection.warnings[..] else {
        panic!("{:?}", injection.warnings);
    };
    assert!(
        warning.contains("\"server\"") && warning.contains("/run/tetris/store/"),
        "{warning}"
    );
    let after = patched(&before, &injection);
    assert_eq!(
        after["spec"]["containers"][0],
        before["spec"]["containers"][0]
    );
    assert_eq!(of_container(&after, "containers", 1).0.len(), 1);
    assert_eq!(after["spec"]["volumes"].as_array().unwrap().len(), 3);
}

#[test]
fn mounts_at_the_path_or_below_it_are_in_the_way() {
    for path in [
        "/run/tetris/store",
        "/run/tetris/store/cache",
        "/run/tetris/./store",
        "run/tetris/store",
    ] {
        let warning = refused(&mounting(&json!({"mountPath": path}), "emptyDir"));
        assert!(
            warning.contains(path) && warning.contains("move it"),
            "{warning}"
        );
    }
    let device = json!([{"name": "disk", "devicePath": "/run/tetris/store"}]);
    refused(&with(
        pod("minimal"),
        "/spec/containers/0/volumeDevices",
        device,
    ));
}

#[test]
fn mounts_above_the_path_are_in_the_way_when_they_are_read_only() {
    for source in ["configMap", "secret", "projected", "downwardAPI", "image"] {
        let warning = refused(&mounting(&json!({"mountPath": "/run"}), source));
        assert!(warning.contains("read-only mount at \"/run\""), "{warning}");
    }
    refused(&mounting(
        &json!({"mountPath": "/run/tetris", "readOnly": true}),
        "emptyDir",
    ));
    let writable = injected(&mounting(&json!({"mountPath": "/run"}), "emptyDir"));
    assert_eq!(
        (writable.outcome, writable.warnings.len()),
        (InjectionOutcome::Injected, 0)
    );
    let beside = injected(&mounting(
        &json!({"mountPath": "/run/tetris/stores"}),
        "secret",
    ));
    assert_eq!(
        (beside.outcome, beside.warnings.len()),
        (InjectionOutcome::Injected, 0)
    );
}

#[test]
fn a_volume_of_the_driver_that_is_not_read_only_is_told_of() {
    let volumes = json!([{"name": "tetris-store", "csi": {"driver": "csi.tetris.dev"}}]);
    let injection = injected(&with(pod("complete"), "/spec/volumes", volumes));
    assert_eq!(injection.outcome, InjectionOutcome::Complete);
    assert!(injection.warnings[0].contains("csi.readOnly"));
}

#[test]
fn windows_and_static_pods_are_left_alone() {
    assert!(refused(&pod("windows")).contains("Linux"));
    let selected = with(
        pod("minimal"),
        "/spec/nodeSelector",
        json!({"kubernetes.io/os": "windows"}),
    );
    assert!(refused(&selected).contains("Linux"));
    assert!(refused(&pod("static")).contains("static pod"));
}

#[test]
fn warnings_are_few_and_short_however_many_the_reasons() {
    let name = "c".repeat(10_000);
    let taken = |index: usize| {
        let name = format!("{index}{name}");
        json!({"name": name, "volumeMounts": [{"name": "x", "mountPath": format!("/run/tetris/store/{name}")}]})
    };
    let containers = (0..1000).map(taken).collect::<Value>();
    let injection = injected(&with(pod("minimal"), "/spec/containers", containers));
    assert_eq!(injection.warnings.len(), MAX_WARNINGS);
    assert!(injection.warnings.iter().map(String::len).sum::<usize>() < 4096);
    assert!(injection.patch.is_empty());
}

#[test]
fn what_is_no_pod_is_left_alone() {
    for spec in [
        json!(null),
        json!(7),
        json!([]),
        json!({"containers": 7}),
        json!({"containers": [7, null]}),
    ] {
        let injection = injected(&with(pod("minimal"), "/spec", spec.clone()));
        assert!(injection.patch.is_empty(), "{spec}");
        assert_eq!(injection.outcome, InjectionOutcome::Refused);
    }
    refused(&with(pod("minimal"), "/spec/volumes", json!("volumes")));
    refused(&with(pod("minimal"), "/spec/containers/0/env", json!({})));
    refused(&with(
        pod("minimal"),
        "/spec/containers/0/volumeMounts",
        json!(true),
    ));
}
