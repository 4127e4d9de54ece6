//! The Helm chart: made from the manifests, equal to the overlays, and without unknown or contradictory values.

mod digests;
mod made;
mod refused;
mod rendered;
mod values;

pub use made::write_chart;

use std::path::PathBuf;

use tetris_deploy_tests::chart::FOLDER;
use tetris_deploy_tests::files;
use tetris_deploy_tests::helm::{HELM, Helm};
use tetris_deploy_tests::skipped::skipped;

fn folder() -> PathBuf {
    files::deploy().join(FOLDER)
}

/// Helm, or a report that the test is left out.
fn helm() -> Option<Helm> {
    let helm = Helm::find();
    if helm.is_none() {
        skipped(&format!(
            "no helm to render with, neither in {HELM} nor in the PATH; the chart's files are checked"
        ));
    }
    helm
}
