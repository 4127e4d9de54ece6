//! Metrics of the webhook.

use tetris_webhook::metrics::Metrics;

use crate::served::api::Api;
use crate::served::replica::{DAY, Replica, START};

#[test]
fn every_metric_is_in_the_readme_and_there_from_the_start() {
    let readme = include_str!("../../../README.md");
    let metrics = Metrics::default().encode().unwrap();
    let types = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE tetris_webhook_"));
    let mut count = 0;
    for (family, kind) in types.filter_map(|line| line.split_once(' ')) {
        let name = match kind {
            "counter" => format!("{family}_total"),
            _ => family.to_owned(),
        };
        assert!(
            readme.contains(&format!("`{name}`")),
            "deploy/webhook/README.md does not name `{name}`"
        );
        let line = format!("\ntetris_webhook_{name}");
        assert!(metrics.contains(&line), "{name}\n{metrics}");
        count += 1;
    }
    assert!(count > 6, "{metrics}");
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
