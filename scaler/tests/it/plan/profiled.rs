//! Tests that the scaler reads the profiler's output.

use tetris_scaler::resources::ModelProfile;
use tetris_scaler_profiler::{MAX_LISTED_OBJECTS, MAX_SETTINGS, ModelProfileManifest};

const SAMPLE: &str =
    include_str!("../../../../deploy/samples/scaler/all-minilm-l6-v2.profile.yaml");

#[test]
fn a_measured_profile_is_read_by_both_and_passes_all_checks() {
    let written: ModelProfileManifest = serde_saphyr::from_str(SAMPLE).unwrap();
    assert!(written.spec.measured.is_some() && !written.spec.manifests.is_empty());
    // Write it again, as the profiler would now.
    let yaml = serde_saphyr::to_string(&written).unwrap();
    let read: ModelProfile = serde_saphyr::from_str(&yaml).unwrap();
    let checked = read.checked().unwrap();
    assert_eq!(checked.configurations.len(), 12);
    assert_eq!(checked.objects.len(), 40);
    // Both have the same fields, with the same names.
    let (ours, theirs) = (
        serde_json::to_value(&read.spec).unwrap(),
        serde_json::to_value(&written.spec).unwrap(),
    );
    assert_eq!(ours, theirs);
}

#[test]
fn the_resource_takes_the_largest_profile() {
    let crds = tetris_scaler::resources::crds();
    let profile = crds
        .iter()
        .find(|crd| crd.spec.names.kind == "ModelProfile");
    let crd = serde_json::to_value(profile.unwrap()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let most = |field: &str| {
        let field = &schema["properties"]["spec"]["properties"][field];
        field["maxItems"].as_u64().unwrap()
    };
    assert_eq!(most("configurations"), MAX_SETTINGS as u64);
    assert_eq!(most("objects"), MAX_LISTED_OBJECTS as u64);
}
