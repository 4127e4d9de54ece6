//! Metrics of the webhook.

use tetris_webhook::metrics::Metrics;

use crate::served::api::Api;
use crate::served::replica::{DAY, Replica, START};

/// Series that are there before anything happened.
const NAMES: [&str; 6] = [
    "reviews_total",
    "warnings_total",
    "malformed_requests_total",
    "connections_total",
    "sync_errors_total",
    "certificate_expiry_timestamp_seconds",
];

#[test]
fn what_the_readme_names_is_there_from_the_start() {
    let readme = include_str!("../../../README.md");
    let metrics = Metrics::default().encode().unwrap();
    for name in NAMES {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
        let line = format!("\ntetris_webhook_{name}");
        assert!(metrics.contains(&line), "{name}\n{metrics}");
    }
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
