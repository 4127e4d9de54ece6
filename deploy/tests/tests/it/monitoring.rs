//! The Prometheus operator gets the alert rules that Prometheus itself gets, and Grafana the dashboard.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::{Objects, text};

const RULE: &str = "overlays/monitoring/prometheus-rule.yaml";

/// All rule files, in order.
fn rule_files() -> Vec<String> {
    let all = files::below("dashboards").into_iter();
    all.filter(|path| path.ends_with(".rules.yaml")).collect()
}

/// The object, with the rules as they are written in their files.
fn rule_object() -> String {
    let mut object = String::from(
        "# Made from deploy/dashboards/*.rules.yaml by a test (UPDATE_GOLDEN=1); change those.\n\
         apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: tetris\n  namespace: tetris-system\n  \
         labels:\n    app.kubernetes.io/part-of: tetris\nspec:\n  groups:\n",
    );
    for path in rule_files() {
        let text = files::read(&path);
        let (_, groups) = text.split_once("groups:\n").expect(&path);
        for line in groups.lines() {
            let indent = if line.is_empty() { "" } else { "  " };
            object.extend([indent, line, "\n"]);
        }
    }
    object
}

/// Makes the object anew, for the tests of golden files.
pub fn write_rule_object() {
    fs::write(files::deploy().join(RULE), rule_object()).unwrap();
}

#[test]
fn the_operators_rules_are_those_of_the_rule_files() {
    let objects = Objects::parse(&files::read(RULE)).unwrap();
    let groups_of_rules = &objects.one("PrometheusRule", "tetris")["spec"]["groups"];
    let groups = rule_files().into_iter().flat_map(|path| {
        let file: Value = Objects::parse(&files::read(&path)).unwrap().0.remove(0);
        file["groups"].as_array().cloned().unwrap_or_default()
    });
    let expected: Vec<Value> = groups.collect();
    assert!(!expected.is_empty());
    assert!(
        *groups_of_rules == Value::from(expected),
        "{RULE} is out of date: UPDATE_GOLDEN=1"
    );
    let rendered = Objects::golden("monitoring");
    assert_eq!(
        rendered.one("PrometheusRule", "tetris")["spec"]["groups"],
        *groups_of_rules
    );
}

#[test]
fn grafana_gets_every_dashboard() {
    let objects = Objects::golden("monitoring");
    let map = objects.one("ConfigMap", "tetris-dashboard");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    for path in files::below("dashboards").iter().filter(|path| {
        Path::new(path)
            .extension()
            .is_some_and(|kind| kind == "json")
    }) {
        let name = path.rsplit('/').next().unwrap();
        assert!(text(&map["data"][name]) == files::read(path), "{path}");
    }
}
