//! The golden files against the schemas of Kubernetes, of two versions of its API.

use std::path::Path;
use std::process::{Command, Output};

use tetris_deploy_tests::kustomize::{self, RENDERED};
use tetris_deploy_tests::skipped::skipped;

/// Exit code of the script without Python, or if it cannot fetch the schemas.
pub const CANNOT: i32 = 77;

pub fn validate(files: &[&Path]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("validate");
    Command::new(script).args(files).output().unwrap()
}

#[test]
fn manifests_are_valid_in_both_versions_and_a_wrong_one_is_not() {
    let files: Vec<_> = RENDERED
        .iter()
        .map(|(name, _)| kustomize::golden(name))
        .collect();
    let files: Vec<_> = files.iter().map(AsRef::as_ref).collect();
    let output = validate(&files);
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(CANNOT) {
        return skipped(said.trim());
    }
    assert!(output.status.success(), "{said}");

    let dir = tempfile::tempdir().unwrap();
    let wrong = [
        (
            "unknown-field.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, imagee: b}]}\n",
        ),
        (
            "unknown-kind.yaml",
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n",
        ),
    ];
    for (name, text) in wrong {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output = validate(&[&path]);
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
    }
}
