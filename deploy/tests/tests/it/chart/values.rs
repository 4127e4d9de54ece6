//! `values.yaml` and its schema name the same values.

use std::collections::BTreeSet;

use serde_json::Value;
use tetris_deploy_tests::chart::{FOLDER, settings};
use tetris_deploy_tests::files;
use tetris_deploy_tests::objects::Objects;

fn defaults() -> Value {
    let text = files::read(&format!("{FOLDER}/values.yaml"));
    Objects::parse(&text).unwrap().0.remove(0)
}

/// The default of a value, as JSON.
pub fn default_of(name: &str) -> String {
    let defaults = defaults();
    let value = name.split('.').fold(&defaults, |value, key| &value[key]);
    assert!(!value.is_null(), "values.yaml: no `{name}`");
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}

/// Paths of values that have no fields, or none that `values.yaml` names.
fn leaves(path: &str, value: &Value, leaves_so_far: &mut BTreeSet<String>) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (key, field) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{key}"), field, leaves_so_far);
            }
        }
        None => {
            leaves_so_far.insert(path.to_owned());
        }
    }
}

#[test]
fn every_default_is_described_and_every_described_value_has_a_default() {
    let mut named = BTreeSet::new();
    leaves("", &defaults(), &mut named);
    let described: BTreeSet<_> = settings().into_iter().map(|setting| setting.name).collect();
    assert_eq!(named, described);
}
