//! The scaler's dashboard and alerts name only metrics that there are, and every metric of the scaler
//! is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::{Objects, list, text};
use tetris_deploy_tests::skipped::skipped;
use tetris_gateway::routes::Routes;
use tetris_scaler::metrics::Metrics;
use tetris_scaler::resources::{InferenceFunction, ModelProfile, parse};
use tetris_scaler::state::{FunctionState, Key, Snapshot, published};
use tetris_scaler_core::{FunctionDecision, FunctionModel, FunctionOutcome, Rate};
use tetris_test_support::promql::names;
use tetris_test_support::scrape::Scrape;

const DASHBOARD: &str = "dashboards/tetris-scaler.json";
const RULES: &str = "dashboards/tetris-scaler.rules.yaml";
/// Labels that the Prometheus operator adds to every series that it scrapes.
const OF_TARGET: [&str; 3] = ["instance", "job", "pod"];

/// Metrics of a scaler with one function.
fn scrape() -> Scrape {
    let (snapshots, watched) = published();
    let metrics = Metrics::new(watched);
    metrics.failed("load");
    metrics.wrote("apply");
    metrics.planned(0.001);
    metrics.opened("planned", 0.2);
    metrics.state(true, 3);
    let key = Key::new("team", "held");
    snapshots.send_replace(Arc::new(Snapshot {
        functions: BTreeMap::from([(key, Arc::new(function()))]),
        decided_ms: 1,
    }));
    Scrape::parse(&metrics.encode().unwrap())
}

/// Metrics of the programs whose versions the dashboard shows beside the scaler's.
fn others() -> [Scrape; 2] {
    let gateway = tetris_gateway::metrics::Metrics::new();
    let webhook = tetris_webhook::metrics::Metrics::default();
    let pages = [gateway.encode(&Routes::new([])), webhook.encode()];
    pages.map(|page| Scrape::parse(&page.unwrap()))
}

fn function() -> FunctionState {
    let objects = Objects::golden("cluster-function");
    let of = |kind| objects.one(kind, "held").clone();
    let function: InferenceFunction = parse(of("InferenceFunction")).unwrap();
    let function = function.checked().unwrap();
    let profile: ModelProfile = parse(of("ModelProfile")).unwrap();
    let profile = profile.checked().unwrap();
    let selected = profile.for_function(&function, Vec::new()).unwrap();
    FunctionState {
        model: Arc::new(FunctionModel {
            name: function.name.clone(),
            profile: selected.profile,
            slo: function.slo,
            store: "serving".to_owned(),
            tensors: profile.tensors(&function.store).unwrap(),
            allowed: Vec::new(),
            alpha_bytes_per_millicore: 0,
        }),
        function: Arc::new(function),
        configurations: selected.names.into(),
        load: Some(Rate::from_rps(30)),
        failing: BTreeMap::from([("NotReady", 1)]),
        decision: FunctionDecision {
            replicas: BTreeMap::from([(0, 2)]),
            start: BTreeMap::new(),
            release: Vec::new(),
            retiring: Vec::new(),
            ranking: Vec::new(),
            preferred: BTreeMap::new(),
            capacity: Rate::from_rps(40),
            ready: Rate::from_rps(40),
            needed: Rate::from_rps(33),
            outcome: FunctionOutcome::AtMaximum {
                max_instances: 2,
                uncovered: Rate::from_rps(3),
            },
        },
    }
}

fn dashboard() -> Value {
    serde_json::from_str(&files::read(DASHBOARD)).unwrap()
}

fn panel_expressions(dashboard: &Value) -> Vec<String> {
    let panels = list(&dashboard["panels"]).iter();
    let targets = panels.flat_map(|panel| list(&panel["targets"]));
    targets
        .map(|target| text(&target["expr"]).to_owned())
        .collect()
}

fn rule_expressions() -> Vec<String> {
    let rules = Objects::parse(&files::read(RULES)).unwrap();
    let groups = list(&rules.0[0]["groups"]).iter();
    let rules = groups.flat_map(|group| list(&group["rules"]));
    rules.map(|rule| text(&rule["expr"]).to_owned()).collect()
}

/// Every metric is on one of the pages, with the labels that it is selected and grouped by.
fn check(scrapes: &[Scrape], expression: &str) {
    let named = names(expression);
    assert!(!named.selectors.is_empty(), "{expression} names no metric");
    let mut known: BTreeSet<String> = OF_TARGET.map(str::to_owned).into();
    for selector in &named.selectors {
        let metric = &selector.metric;
        let exposing = |scrape: &&Scrape| scrape.family(metric).is_some();
        let Some(scrape) = scrapes.iter().find(exposing) else {
            panic!("{metric} of {expression} is not exposed")
        };
        let labels = scrape.labels(metric);
        for (label, _, _) in &selector.matchers {
            assert!(
                labels.contains_key(label),
                "{metric} has no label {label}: {expression}"
            );
        }
        known.extend(labels.into_keys());
    }
    assert!(
        named.grouping.is_subset(&known),
        "{:?} is not within {known:?}: {expression}",
        named.grouping
    );
}

#[test]
fn panels_and_alerts_name_only_metrics_that_there_are() {
    let mut scrapes = vec![scrape()];
    scrapes.extend(others());
    let dashboard = dashboard();
    let (panels, rules) = (panel_expressions(&dashboard), rule_expressions());
    assert!(panels.len() > 10 && rules.len() > 4);
    for expression in panels.iter().chain(&rules) {
        check(&scrapes, expression);
    }
    for variable in list(&dashboard["templating"]["list"]) {
        if let Some(query) = variable["query"]["query"].as_str() {
            check(&scrapes, query);
        }
    }
}

#[test]
fn every_metric_is_shown() {
    let scrape = scrape();
    let shown = panel_expressions(&dashboard());
    let shown: BTreeSet<&str> = shown
        .iter()
        .flat_map(|expression| names(expression).selectors)
        .filter_map(|selector| scrape.family(&selector.metric))
        .collect();
    let all: BTreeSet<&str> = scrape.families.keys().map(String::as_str).collect();
    let hidden: Vec<_> = all.difference(&shown).collect();
    assert!(
        hidden.is_empty(),
        "deploy/{DASHBOARD} does not show {hidden:?}"
    );
}

#[test]
fn panels_do_not_lie_over_each_other() {
    let dashboard = dashboard();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard["panels"]) {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let place = |key| panel["gridPos"][key].as_u64().unwrap();
        let [x, y, w, h] = ["x", "y", "w", "h"].map(place);
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} lies over another");
        }
    }
}

#[test]
fn promtool_finds_no_fault_in_panels_and_alerts() {
    let mut command = Command::new("promtool");
    if command.arg("--version").output().is_err() {
        return skipped("promtool is not installed (Debian package prometheus)");
    }
    let panels = panel_expressions(&dashboard()).into_iter().enumerate();
    let panels = panels.map(|(number, expression)| {
        let expression = expression.replace("$__rate_interval", "5m");
        serde_json::json!({"record": format!("panel:{number}"), "expr": expression})
    });
    let panels: Vec<Value> = panels.collect();
    let rules = serde_json::json!({"groups": [{"name": "panels", "rules": panels}]});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("panels.yaml");
    std::fs::write(&path, rules.to_string()).unwrap();
    for path in [path, files::deploy().join(RULES)] {
        let mut command = Command::new("promtool");
        command.args(["check", "rules"]).arg(path);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
