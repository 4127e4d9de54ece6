//! The table of metrics in docs/metrics.md, which is written from an exposition with every family.

use std::collections::BTreeMap;

use crate::generated_page;
use crate::http::fixtures::{Daemon, mirror, node};

#[tokio::test]
async fn the_page_of_metrics_has_every_metric() {
    let daemon = Daemon::with(node()).with_mirror(mirror());
    let answer = daemon.get("/metrics").await;
    generated_page::check("metrics.md", "tetris-node", &table(answer.text()));
}

/// Name, type and meaning of each family of the daemon. Those of the process have the names that
/// Prometheus gives them everywhere.
fn table(exposition: &str) -> String {
    let parts = |mark: &str| -> BTreeMap<String, String> {
        let lines = exposition
            .lines()
            .filter_map(|line| line.strip_prefix(mark));
        let pairs = lines.filter_map(|rest| rest.split_once(' '));
        pairs
            .filter(|(name, _)| name.starts_with("tetris_"))
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect()
    };
    let help = parts("# HELP ");
    let mut rows = String::from("| metric | type | meaning |\n| --- | --- | --- |\n");
    for (name, kind) in parts("# TYPE ") {
        let suffix = match kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let meaning = help[&name].trim_end_matches('.').replace('|', "\\|");
        rows.extend([
            "| `",
            &name,
            suffix,
            "` | ",
            &kind,
            " | ",
            meaning.as_str(),
            " |\n",
        ]);
    }
    rows
}
