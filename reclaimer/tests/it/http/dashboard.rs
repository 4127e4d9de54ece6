//! The dashboard and the alert rules name only what there is, and leave out nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::http::fixtures::{Daemon, mirror, node};
use tetris_test_support::promql::{Names, names};
use tetris_test_support::scrape::Scrape;

/// Labels that Prometheus adds to every series that it scrapes.
const OF_TARGET: [&str; 2] = ["instance", "job"];
/// Families that no panel shows, and why.
const NOT_SHOWN: [(&str, &str); 13] = [
    (
        "tetris_gpu_device_exclusive",
        "of a node's set-up: the log warns at the start",
    ),
    (
        "tetris_gpu_device_mps",
        "of a node's set-up: the log warns at the start",
    ),
    (
        "tetris_gpu_light_bytes",
        "of a node's set-up: it does not move",
    ),
    (
        "tetris_gpu_link_bytes_per_second",
        "of a node's set-up: it is measured when the daemon starts",
    ),
    (
        "tetris_gpu_registration_refused",
        "an alert watches it, and `gpu-status` has the reason",
    ),
    (
        "tetris_gpu_unanswered_check_seconds",
        "copies keep a device busy too: for a look by hand at one that may hang",
    ),
    ("tetris_node_info", "names nodes, for the variable `node`"),
    (
        "tetris_store_record_limit_bytes",
        "records are kept within it: it explains why some are removed",
    ),
    (
        "tetris_store_records_not_followed",
        "0 but for a store with millions of objects in records, or a hostile pod: for queries by hand",
    ),
    (
        "tetris_store_records_quarantined",
        "0 but after a crash loop by the content of a store, which the log and `/status` name",
    ),
    (
        "tetris_mount_large_pages_ratio",
        "of a node's set-up: it hardly moves, and the log warns",
    ),
    (
        "tetris_mount_small_pages",
        "the reason, for queries by hand and the operations guide",
    ),
    (
        "tetris_volumes",
        "of a node's set-up: what new volumes are is the kernel's and the configuration's",
    ),
];

async fn scrape() -> Scrape {
    Scrape::parse(
        Daemon::with(node())
            .with_mirror(mirror())
            .with_processes()
            .get("/metrics")
            .await
            .text(),
    )
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/dashboards")
        .join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("tetris-node.json")).unwrap()
}

fn strings<'a>(value: &'a Value, pointer: &str, key: &str) -> Vec<&'a str> {
    let items = value.pointer(pointer).and_then(Value::as_array).unwrap();
    items
        .iter()
        .filter_map(|item| item.pointer(key)?.as_str())
        .collect()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

/// All expressions of panels.
fn panel_expressions(dashboard: &Value) -> Vec<&str> {
    let graphs = panels(dashboard)
        .iter()
        .filter(|panel| panel["type"] != "row");
    graphs
        .flat_map(|panel| strings(panel, "/targets", "/expr"))
        .collect()
}

/// Expressions of rules: one line each, which is checked.
fn rule_expressions(rules: &str) -> Vec<&str> {
    let expressions: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert_eq!(expressions.len(), rules.matches("expr:").count());
    assert_eq!(expressions.len(), rules.matches("- alert:").count());
    expressions
}

/// Every metric is exposed, with these labels, and with these values where one is given in full.
fn check(scrape: &Scrape, expression: &str) {
    let Names {
        selectors,
        grouping,
    } = names(expression);
    assert!(!selectors.is_empty(), "{expression} names no metric");
    let mut known: BTreeSet<String> = OF_TARGET.map(str::to_owned).into();
    for selector in &selectors {
        let metric = &selector.metric;
        assert!(
            scrape.family(metric).is_some(),
            "{metric} of {expression} is not exposed"
        );
        let labels = scrape.labels(metric);
        for (label, _, value) in &selector.matchers {
            if OF_TARGET.contains(&label.as_str()) {
                continue;
            }
            let values = labels.get(label);
            let values =
                values.unwrap_or_else(|| panic!("{metric} has no label {label}: {expression}"));
            for value in value
                .split('|')
                .filter(|value| !value.contains('$') && !value.is_empty())
            {
                assert!(
                    values.contains(value),
                    "{metric} never has {label}={value}: {expression}"
                );
            }
        }
        known.extend(labels.into_keys());
    }
    assert!(
        grouping.is_subset(&known),
        "{grouping:?} is not within {known:?}: {expression}"
    );
}

#[tokio::test]
async fn panels_name_only_metrics_that_there_are() {
    let (scrape, dashboard) = (scrape().await, dashboard());
    let expressions = panel_expressions(&dashboard);
    assert!(expressions.len() > 30);
    for expression in expressions {
        check(&scrape, expression);
    }
    for query in strings(&dashboard, "/templating/list", "/query/query") {
        check(&scrape, query);
    }
}

#[tokio::test]
async fn every_metric_is_shown_or_excepted() {
    let (scrape, dashboard) = (scrape().await, dashboard());
    let shown: BTreeSet<String> = panel_expressions(&dashboard)
        .into_iter()
        .flat_map(|expression| names(expression).selectors)
        .filter_map(|selector| scrape.family(&selector.metric).map(str::to_owned))
        .collect();
    for family in scrape.families.keys() {
        let excepted = NOT_SHOWN.iter().any(|(name, _)| name == family);
        assert_ne!(
            shown.contains(family),
            excepted,
            "{family}: show it in deploy/dashboards/tetris-node.json, or give the reason in NOT_SHOWN"
        );
    }
    for (name, _) in NOT_SHOWN {
        assert!(scrape.families.contains_key(name), "{name} is no metric");
    }
}

#[test]
fn panels_have_their_own_ids_and_places() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "tetris-node");
    assert_eq!(
        strings(&dashboard, "/templating/list", "/name"),
        ["datasource", "node", "store"]
    );
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels(&dashboard) {
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{}",
            panel["title"]
        );
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{}", panel["title"]);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{} lies over another", panel["title"]);
        }
        if panel["type"] != "row" {
            assert_eq!(
                panel["datasource"]["uid"], "${datasource}",
                "{}",
                panel["title"]
            );
        }
    }
}

#[tokio::test]
async fn alerts_name_only_metrics_that_there_are() {
    let scrape = scrape().await;
    for expression in rule_expressions(&read("tetris-node.rules.yaml")) {
        check(&scrape, expression);
    }
}

#[tokio::test]
async fn promtool_finds_no_fault() {
    if Command::new("promtool").arg("--version").output().is_err() {
        tetris_test_support::skipped::skipped(
            "promtool is not installed (Debian package prometheus)",
        );
        return;
    }
    promtool(
        &["check", "rules"],
        Some(&file("tetris-node.rules.yaml")),
        "",
    );
    promtool(&["check", "metrics"], None, &scrape().await.classic());
    // The panels' expressions too, as rules: Grafana's variables stand for a duration and for
    // regular expressions.
    let mut rules = "groups:\n- name: panels\n  rules:\n".to_owned();
    for (number, expression) in panel_expressions(&dashboard()).into_iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "5m");
        writeln!(
            rules,
            "  - record: panel:{number}\n    expr: {}",
            Value::from(expression)
        )
        .unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("panels.yaml");
    std::fs::write(&path, rules).unwrap();
    promtool(&["check", "rules"], Some(&path), "");
}

fn promtool(arguments: &[&str], path: Option<&Path>, input: &str) {
    use std::io::Write as _;
    let mut child = Command::new("promtool")
        .args(arguments)
        .args(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
