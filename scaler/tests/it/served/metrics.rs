//! The table of metrics in docs/metrics.md.

use std::sync::Arc;

use tetris_scaler::metrics::Metrics;
use tetris_scaler::state::Key;
use tetris_scaler_core::FunctionOutcome;
use tokio::sync::watch;

use tetris_test_support::metrics_page;
use tetris_test_support::scaler_snapshot::{NAMESPACE, decide, snapshot};

#[test]
fn the_page_of_metrics_has_every_metric() {
    let mut decided = snapshot(&[("bert", "Operator")]);
    decide(&mut decided, "bert", 0, 1);
    let state = decided.functions.get_mut(&Key::new(NAMESPACE, "bert"));
    // Its load cannot be carried, so that the family of such functions has a sample.
    Arc::make_mut(state.unwrap()).decision.outcome = FunctionOutcome::NoConfiguration;
    let (_sender, snapshots) = watch::channel(Arc::new(decided));
    let metrics = Metrics::new(snapshots);
    metrics.failed("watch");
    metrics.gateways(2, 1);
    metrics.wrote("deployment");
    metrics.opened("planned", 0.2);
    metrics_page::check("tetris-scaler", &metrics.encode().unwrap());
}

#[test]
fn the_version_is_there_from_the_start() {
    let (_sender, snapshots) = watch::channel(Arc::default());
    let version = env!("CARGO_PKG_VERSION");
    let sample = format!("tetris_scaler_build_info{{version=\"{version}\"}} 1\n");
    for metrics in [Metrics::new(snapshots), Metrics::of_gates()] {
        let metrics = metrics.encode().unwrap();
        assert!(metrics.contains(&sample), "{sample} in {metrics}");
    }
}
