//! The volume, its mounts and the variables, in pods of all kinds.

use serde_json::{Value, json};
use tetris_webhook::inject::{InjectionOutcome, Options, Scope, inject};

use crate::inject::fixtures::{PODS, clean, injected, of_container, patched, pod, refused, with};

fn volume() -> Value {
    json!({"name": "tetris-store", "csi": {"driver": "csi.tetris.dev", "readOnly": true}})
}

fn mount() -> Vec<Value> {
    vec![json!({"name": "tetris-store", "mountPath": "/run/tetris/store", "readOnly": true})]
}

fn env() -> Vec<Value> {
    vec![
        json!({"name": "TETRIS_STORE", "value": "/run/tetris/store"}),
        json!({"name": "TETRIS_PATCH", "value": "1"}),
    ]
}

#[test]
fn a_pod_of_a_deployment_gets_volume_mount_and_variables_after_its_own() {
    let before = pod("deployment");
    let after = clean(&before);
    let appended = |pointer: &str, additions: &[Value]| {
        let mut expected = before.pointer(pointer).unwrap().as_array().unwrap().clone();
        expected.extend_from_slice(additions);
        assert_eq!(after.pointer(pointer).unwrap(), &Value::from(expected));
    };
    appended("/spec/volumes", &[volume()]);
    appended("/spec/containers/0/volumeMounts", &mount());
    appended("/spec/containers/0/env", &env());
}

#[test]
fn init_containers_and_sidecars_get_the_store_and_ephemeral_ones_do_not() {
    let after = clean(&pod("init-and-sidecar"));
    for (list, index) in [
        ("initContainers", 0),
        ("initContainers", 1),
        ("containers", 0),
        ("containers", 1),
    ] {
        assert_eq!(
            of_container(&after, list, index),
            (mount(), env()),
            "{list} {index}"
        );
    }
    assert_eq!(
        of_container(&after, "ephemeralContainers", 0),
        (vec![], vec![])
    );
}

#[test]
fn pods_of_jobs_and_restricted_pods_get_it() {
    for name in ["job", "restricted"] {
        let before = pod(name);
        let after = clean(&before);
        assert_eq!(
            after["spec"]["volumes"].as_array().unwrap().last(),
            Some(&volume())
        );
        assert_eq!(
            of_container(&after, "containers", 0),
            (mount(), env()),
            "{name}"
        );
        assert_eq!(
            after["spec"]["securityContext"],
            before["spec"]["securityContext"]
        );
        assert_eq!(after["metadata"], before["metadata"]);
    }
}

#[test]
fn lists_that_are_absent_or_null_are_made() {
    for name in ["minimal", "nulls"] {
        let after = clean(&pod(name));
        assert_eq!(after["spec"]["volumes"], json!([volume()]), "{name}");
        assert_eq!(
            after["spec"]["containers"][0]["volumeMounts"],
            json!(mount())
        );
        assert_eq!(after["spec"]["containers"][0]["env"], json!(env()));
    }
}

#[test]
fn a_pod_that_has_all_of_it_gets_nothing() {
    let injection = injected(&pod("complete"));
    assert_eq!(injection.outcome, InjectionOutcome::Complete);
    assert!(injection.patch.is_empty() && injection.warnings.is_empty());
}

#[test]
fn a_volume_of_the_driver_is_used_under_its_own_name() {
    let before = pod("own-volume");
    let after = clean(&before);
    assert_eq!(after["spec"]["volumes"], before["spec"]["volumes"]);
    // This container has mounted it elsewhere, and programs know where; its own TETRIS_PATCH stays.
    let server = &after["spec"]["containers"][0];
    assert_eq!(
        server["volumeMounts"],
        before["spec"]["containers"][0]["volumeMounts"]
    );
    let env = json!([{"name": "TETRIS_PATCH", "value": "files"}, {"name": "TETRIS_STORE", "value": "/weights"}]);
    assert_eq!(server["env"], env);
    let added = after["spec"]["containers"][1]["volumeMounts"]
        .as_array()
        .unwrap()
        .last();
    let expected = json!({"name": "weights", "mountPath": "/run/tetris/store", "readOnly": true});
    assert_eq!(added, Some(&expected));
}

#[test]
fn a_part_of_the_store_mounted_elsewhere_is_not_the_store() {
    let part = json!([{"name": "tetris-store", "mountPath": "/part", "subPath": "daemon", "readOnly": true}]);
    let after = clean(&with(
        pod("complete"),
        "/spec/containers/0/volumeMounts",
        part.clone(),
    ));
    let mounts = json!([part[0], mount()[0]]);
    assert_eq!(after["spec"]["containers"][0]["volumeMounts"], mounts);
}

#[test]
fn a_mount_that_is_there_before_its_volume_is_used() {
    let mounts = json!([{"name": "tetris-store", "mountPath": "/weights"}]);
    let after = clean(&with(
        pod("minimal"),
        "/spec/containers/0/volumeMounts",
        mounts.clone(),
    ));
    assert_eq!(after["spec"]["volumes"], json!([volume()]));
    assert_eq!(after["spec"]["containers"][0]["volumeMounts"], mounts);
    assert_eq!(
        after["spec"]["containers"][0]["env"][0]["value"],
        "/weights"
    );
}

#[test]
fn variables_of_the_user_stay_whatever_they_say() {
    let variables = json!([
        {"name": "TETRIS_PATCH", "value": "0"},
        {"name": "TETRIS_STORE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    ]);
    let after = clean(&with(
        pod("minimal"),
        "/spec/containers/0/env",
        variables.clone(),
    ));
    assert_eq!(after["spec"]["containers"][0]["env"], variables);
    assert_eq!(of_container(&after, "containers", 0).0, mount());
}

#[test]
fn only_labels_decide() {
    let options = Options::default();
    let label = "/metadata/labels/tetris.dev~1inject";
    let pods = PODS
        .iter()
        .filter(|(name, _)| !["windows", "static", "complete", "other-volume"].contains(name));
    for (name, _) in pods {
        let unlabeled = with(pod(name), "/metadata/labels", json!({"app": "x"}));
        let outcome = |pod: &Value, scope| inject(pod, scope, &options).outcome;
        assert_eq!(
            outcome(&unlabeled, Scope::Pod),
            InjectionOutcome::NotAsked,
            "{name}"
        );
        assert_eq!(
            outcome(&unlabeled, Scope::Namespace),
            InjectionOutcome::Injected,
            "{name}"
        );
        let opted_out = with(pod(name), label, json!("false"));
        for scope in [Scope::Pod, Scope::Namespace] {
            assert_eq!(
                outcome(&opted_out, scope),
                InjectionOutcome::NotAsked,
                "{name}"
            );
            assert_eq!(
                outcome(&pod(name), scope),
                InjectionOutcome::Injected,
                "{name}"
            );
        }
    }
}

#[test]
fn a_label_that_is_neither_leaves_the_pod_alone_and_says_so() {
    for value in ["yes", "True", "", "1"] {
        let pod = with(
            pod("minimal"),
            "/metadata/labels/tetris.dev~1inject",
            json!(value),
        );
        assert!(refused(&pod).contains(&format!("found {value:?}")));
        let namespace = inject(&pod, Scope::Namespace, &Options::default());
        assert_eq!(namespace.outcome, InjectionOutcome::Refused);
    }
}

#[test]
fn driver_and_path_can_be_others() {
    let options = Options::try_new("store.example.org", "/mnt/store", "/mnt/python").unwrap();
    let before = pod("minimal");
    let after = patched(&before, &inject(&before, Scope::Pod, &options));
    assert_eq!(
        after["spec"]["volumes"][0]["csi"]["driver"],
        "store.example.org"
    );
    let container = &after["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/mnt/store");
    assert_eq!(container["env"][0]["value"], "/mnt/store");
}

#[test]
fn options_that_no_pod_could_have_are_refused() {
    for driver in ["", "a/b", "-a", "a b", &"a".repeat(64)] {
        let error = Options::try_new(driver, "/run/tetris/store", "/python").unwrap_err();
        assert!(error.to_string().contains("--driver"), "{error}");
    }
    for path in ["", "/", "run", "/a/../b", "/a:b", "/a/", "//a", "/a\n"] {
        let error = Options::try_new("csi.tetris.dev", path, "/python").unwrap_err();
        assert!(error.to_string().contains("--mount-path"), "{error}");
    }
}
