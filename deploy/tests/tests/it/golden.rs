//! Golden files: kustomize renders each folder as someone looked at it and committed it.

use std::collections::BTreeSet;
use std::fs;

use tetris_deploy_tests::files;
use tetris_deploy_tests::kustomize::{self, RENDERED};
use tetris_deploy_tests::skipped::skipped;

use crate::{chart, monitoring, scaler};

/// Set to 1, the golden files are written anew.
const UPDATE: &str = "UPDATE_GOLDEN";

#[test]
fn rendered_manifests_are_the_golden_files() {
    if !kustomize::is_there() {
        return skipped(
            "there is no kubectl to render with; the golden files themselves are checked",
        );
    }
    let update = std::env::var_os(UPDATE).is_some_and(|value| value == "1");
    if update {
        // It is rendered too.
        monitoring::write_rule_object();
        scaler::write_crds();
    }
    for (name, folder) in RENDERED {
        let path = kustomize::golden(name);
        let rendered = kustomize::render(folder).unwrap();
        if update {
            fs::write(&path, &rendered).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        let first = rendered
            .lines()
            .zip(golden.lines())
            .find(|(new, old)| new != old);
        let path = path.display();
        assert!(
            rendered == golden,
            "{folder} no longer renders to {path}; first difference (new, old): {first:?}; if it is right, {UPDATE}=1"
        );
    }
    if update {
        // From the golden files.
        chart::write_chart();
    }
}

#[test]
fn every_folder_with_a_kustomization_is_rendered() {
    let rendered: BTreeSet<_> = RENDERED
        .iter()
        .map(|(_, folder)| (*folder).to_owned())
        .collect();
    let kustomizations = ["overlays", "samples", "tests/cluster"].map(files::below);
    let paths = kustomizations.iter().flatten();
    let folders = paths.filter_map(|path| path.strip_suffix("/kustomization.yaml"));
    let names: BTreeSet<_> = folders.map(str::to_owned).collect();
    assert_eq!(names, rendered);
    let golden: BTreeSet<_> = files::below("tests/golden").into_iter().collect();
    let expected = RENDERED
        .iter()
        .map(|(name, _)| format!("tests/golden/{name}.yaml"));
    assert_eq!(golden, expected.collect());
}
