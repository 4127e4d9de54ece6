//! Annotations of a pod.

use serde_json::{Value, json};
use tetris_webhook::inject::InjectionOutcome;

use crate::inject::fixtures::{clean, injected, of_container, patched, pod, refused, with};

fn annotated(name: &str, key: &str, value: &str) -> Value {
    with(pod(name), "/metadata/annotations", json!({key: value}))
}

fn variable(pod: &Value) -> Option<String> {
    named(pod, "TETRIS_PATCH")
}

/// Value of a variable of the first container.
fn named(pod: &Value, name: &str) -> Option<String> {
    let (_, env) = of_container(pod, "containers", 0);
    let variable = env.iter().find(|variable| variable["name"] == name)?;
    Some(variable["value"].as_str().unwrap().to_owned())
}

#[test]
fn python_programs_are_patched_unless_told_otherwise() {
    for (value, expected) in [
        ("true", Some("1")),
        ("files", Some("files")),
        ("false", None),
        (" false ", None),
    ] {
        let after = clean(&annotated("minimal", "tetris.dev/patch", value));
        assert_eq!(variable(&after).as_deref(), expected, "{value}");
    }
}

#[test]
fn prefixes_on_gpus_stay_where_the_pod_asks_for_it() {
    for (value, expected) in [
        ("true", Some("1")),
        ("false", None),
        ("250ms", Some("250ms")),
        (" 1.5s ", Some("1.5s")),
        ("3600s", Some("3600s")),
    ] {
        let before = annotated("minimal", "tetris.dev/gpu-template", value);
        let injection = injected(&before);
        assert_eq!(injection.warnings, Vec::<String>::new(), "{value}");
        let after = patched(&before, &injection);
        assert_eq!(
            named(&after, "TETRIS_GPU_TEMPLATE").as_deref(),
            expected,
            "{value}"
        );
        assert_eq!(variable(&after).as_deref(), Some("1"));
    }
    for value in [
        "", "yes", "250", "0s", "-1s", "infs", "NaNs", "1e3s", "1.2.3s", "s", "ms", "3601s",
        "250 ms",
    ] {
        let before = annotated("minimal", "tetris.dev/gpu-template", value);
        let injection = injected(&before);
        assert_eq!(injection.outcome, InjectionOutcome::Injected);
        assert!(
            injection.warnings[0].contains(&format!("found \"{value}\"")),
            "{value}"
        );
        assert_eq!(
            named(&patched(&before, &injection), "TETRIS_GPU_TEMPLATE"),
            None
        );
    }
}

#[test]
fn a_value_that_is_not_known_patches_nothing_and_is_told_of() {
    let before = annotated("minimal", "tetris.dev/patch", "off");
    let injection = injected(&before);
    assert_eq!(injection.outcome, InjectionOutcome::Injected);
    assert!(injection.warnings[0].contains("found \"off\""));
    assert_eq!(variable(&patched(&before, &injection)), None);
}

#[test]
fn containers_can_be_chosen() {
    let after = clean(&annotated(
        "init-and-sidecar",
        "tetris.dev/containers",
        " server, fetch,",
    ));
    let has = |list, index| !of_container(&after, list, index).0.is_empty();
    assert!(has("containers", 0) && has("initContainers", 0));
    assert!(!has("containers", 1) && !has("initContainers", 1));
    assert_eq!(of_container(&after, "containers", 1), (vec![], vec![]));
}

#[test]
fn containers_that_are_not_there_are_told_of() {
    let before = annotated("minimal", "tetris.dev/containers", "server,sever");
    let injection = injected(&before);
    assert_eq!(injection.outcome, InjectionOutcome::Injected);
    assert!(injection.warnings[0].contains("no container \"sever\""));
    assert!(refused(&annotated("minimal", "tetris.dev/containers", "sever")).contains("sever"));
    assert!(refused(&annotated("minimal", "tetris.dev/containers", " , ")).contains("found none"));
}

#[test]
fn a_store_is_asked_for_by_the_attribute_of_the_volume() {
    let after = clean(&annotated("minimal", "tetris.dev/store", "team-a"));
    let csi = json!({"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": {"store": "team-a"}});
    assert_eq!(after["spec"]["volumes"][0]["csi"], csi);
    // And found again when the pod comes a second time.
    assert_eq!(injected(&after).outcome, InjectionOutcome::Complete);
}

#[test]
fn a_name_that_no_store_has_is_told_of_and_not_passed_on() {
    for name in ["", "a b", "../etc", &"s".repeat(64)] {
        let before = annotated("minimal", "tetris.dev/store", name);
        let injection = injected(&before);
        assert!(
            injection.warnings[0].contains("tetris.dev/store"),
            "{:?}",
            injection.warnings
        );
        let after = patched(&before, &injection);
        assert_eq!(
            after["spec"]["volumes"][0]["csi"].get("volumeAttributes"),
            None
        );
    }
}

#[test]
fn a_volume_of_another_store_stays_and_is_told_of() {
    assert!(
        injected(&annotated("own-volume", "tetris.dev/store", "shared"))
            .warnings
            .is_empty()
    );
    let injection = injected(&annotated("own-volume", "tetris.dev/store", "private"));
    assert!(
        injection.warnings[0].contains("has no effect"),
        "{:?}",
        injection.warnings
    );
    let volumes = json!([
        {"name": "one", "csi": {"driver": "csi.tetris.dev", "readOnly": true}},
        {"name": "two", "csi": {"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": {"store": "b"}}},
    ]);
    let two = clean(&with(
        annotated("minimal", "tetris.dev/store", "b"),
        "/spec/volumes",
        volumes,
    ));
    assert_eq!(
        two["spec"]["containers"][0]["volumeMounts"][0]["name"],
        "two"
    );
}
