//! The table of metrics in docs/metrics.md.

use crate::http::fixtures::{Daemon, mirror, node};
use tetris_test_support::metrics_page;

#[tokio::test]
async fn the_page_of_metrics_has_every_metric() {
    let daemon = Daemon::with(node()).with_mirror(mirror());
    let daemon = daemon.with_processes();
    let answer = daemon.get("/metrics").await;
    metrics_page::check("tetris-node", answer.text());
}
