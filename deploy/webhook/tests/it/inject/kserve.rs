//! Pods of KServe whose service has `storageUri: tetris://NAME`, as KServe's own webhook leaves them.

use serde_json::{Value, json};
use tetris_webhook::inject::InjectionOutcome;

use crate::inject::fixtures::{clean, injected, patched, pod, with};

const SOURCE: &str = "/spec/initContainers/0/args";

/// KServe's volume after an injection with these warnings.
fn volume(pod: &Value, warnings: &[&str]) -> Value {
    let injection = injected(pod);
    assert_eq!(injection.warnings, warnings);
    assert_eq!(injection.outcome, InjectionOutcome::Injected);
    patched(pod, &injection)["spec"]["volumes"][1].clone()
}

#[test]
fn the_directory_of_the_storage_initializer_becomes_the_model() {
    let before = pod("kserve");
    let after = clean(&before);
    let attributes = json!({"content": "model", "model": "minilm"});
    let csi = json!({"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": attributes});
    let expected = json!({"name": "kserve-provision-location", "csi": csi});
    assert_eq!(after["spec"]["volumes"][1], expected);
    // Beside it the pod has the store and the package, and its own mounts stay.
    let names = |pod: &Value| -> Vec<String> {
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let names = volumes.iter().map(|volume| volume["name"].as_str());
        names.map(|name| name.unwrap().to_owned()).collect()
    };
    assert_eq!(names(&after)[2..], ["tetris-store", "tetris-python"]);
    for list in ["containers", "initContainers"] {
        let mounts = |pod: &Value| {
            let mounts = &pod["spec"][list][0]["volumeMounts"];
            mounts.as_array().unwrap().clone()
        };
        let earlier = mounts(&before);
        assert_eq!(mounts(&after)[..earlier.len()], earlier);
    }
    // A second webhook, or KServe's again, finds nothing to do.
    assert_eq!(injected(&after).outcome, InjectionOutcome::Complete);
}

#[test]
fn the_model_is_that_of_the_store_that_the_pod_names() {
    let annotation = "/metadata/annotations/tetris.dev~1store";
    let asked = with(pod("kserve"), annotation, "team-a".into());
    let volume = volume(&asked, &[]);
    let attributes = json!({"content": "model", "model": "minilm", "store": "team-a"});
    assert_eq!(volume["csi"]["volumeAttributes"], attributes);
}

#[test]
fn other_sources_keep_their_directory() {
    let expected = json!({"name": "kserve-provision-location", "emptyDir": {}});
    for args in [
        json!(["hf://org/m", "/mnt/models"]),
        json!(["hf://org/a", "/mnt/models/a", "s3://b/c", "/mnt/models/b"]),
        json!([]),
        Value::Null,
    ] {
        let pod = with(pod("kserve"), SOURCE, args);
        assert_eq!(volume(&pod, &[]), expected);
    }
    // An init container of another name.
    let named = with(pod("kserve"), "/spec/initContainers/0/name", "fetch".into());
    assert_eq!(volume(&named, &[]), expected);
}

#[test]
fn models_that_cannot_be_shown_are_told_of() {
    let several = json!(["tetris://a", "/mnt/models/a", "hf://org/b", "/mnt/models/b"]);
    let elsewhere = json!(["tetris://a", "/mnt/other"]);
    let claim =
        json!({"name": "kserve-provision-location", "persistentVolumeClaim": {"claimName": "c"}});
    for (pointer, value, warning) in [
        (
            SOURCE,
            several,
            "container storage-initializer: a pod can have one source tetris://, without others; name the others' models by \
             volumes of the driver csi.tetris.dev",
        ),
        (
            SOURCE,
            elsewhere,
            "container storage-initializer without the model \"a\": it has no volume at the path of its arguments",
        ),
        (
            "/spec/volumes/1",
            claim,
            "container storage-initializer without the model \"minilm\": its volume is not the empty directory that KServe adds",
        ),
    ] {
        let before = with(pod("kserve"), pointer, value);
        assert_eq!(volume(&before, &[warning]), before["spec"]["volumes"][1]);
    }
}

#[test]
fn a_volume_with_a_model_is_not_taken_for_the_store() {
    let attributes = json!({"content": "model", "model": "m"});
    let csi = json!({"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": attributes});
    let volumes = json!([{"name": "model", "csi": csi}]);
    let after = clean(&with(pod("minimal"), "/spec/volumes", volumes));
    let volumes = after["spec"]["volumes"].as_array().unwrap();
    let names: Vec<_> = volumes.iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["model", "tetris-store"]);
}
