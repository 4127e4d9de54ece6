//! Metrics of the webhook.

use tetris_webhook::metrics::Metrics;

use crate::served::api::Api;
use crate::served::replica::{DAY, Replica, START};
use tetris_test_support::metrics_page;

#[test]
fn the_page_of_metrics_has_every_metric_which_is_there_from_the_start() {
    let metrics = Metrics::default().encode().unwrap();
    metrics_page::check("tetris-webhook", &metrics);
}

#[test]
fn the_version_is_there_from_the_start() {
    let metrics = Metrics::default().encode().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let sample = format!("tetris_webhook_build_info{{version=\"{version}\"}} 1\n");
    assert!(metrics.contains(&sample), "{sample} in {metrics}");
}

#[tokio::test]
async fn expiry_is_that_of_what_is_served() {
    let replica = Replica::new(&Api::new());
    replica.sync.pass().await.unwrap();
    let metrics = replica.metrics.encode().unwrap();
    for (name, days) in [("certificate", 90), ("ca", 365)] {
        let line = format!(
            "tetris_webhook_{name}_expiry_timestamp_seconds {}\n",
            START + days * DAY
        );
        assert!(metrics.contains(&line), "{metrics}");
    }
}
