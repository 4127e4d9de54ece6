//! The chart's `values.schema.json`: written by hand but for the fields of configurations, which the programs name.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::FOLDER;
use crate::files;

/// Name that no field has.
const NO_FIELD: &str = "no-such-field";

/// Fields of `node.toml` that belong to the manifests or to other values.
const OF_NODE: [&str; 14] = [
    "csi.driver",
    "csi.kubelet_dir",
    "kubernetes",
    "listen",
    "mount.memory_limit_bytes",
    "mount.path",
    "mount.size_bytes",
    "mount.size_percent",
    "mount.user",
    "network",
    "node",
    "processes",
    "state_dir",
    "gpu_mirror.socket_dir",
];

/// Fields of `gateway.toml` that belong to other values, or that a gateway in a cluster does not have.
const OF_GATEWAY: [&str; 3] = ["function", "gpu_pool", "tls"];

/// A value of the chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Path with dots between.
    pub name: String,
    /// Sentence of the schema.
    pub description: String,
}

/// Text of `values.schema.json`, with the fields that the programs know now.
///
/// # Panics
/// When the file is not JSON, or a program does not name its fields.
pub fn schema() -> String {
    let mut schema = read();
    let definitions = [
        (
            "nodeConfig",
            fields::<tetris_node::config::ConfigFile>(&OF_NODE),
        ),
        (
            "gatewayConfig",
            fields::<tetris_gateway::config::Config>(&OF_GATEWAY),
        ),
    ];
    for (name, definition) in definitions {
        schema["$defs"][name] = definition;
    }
    let text = serde_json::to_string_pretty(&schema);
    format!("{}\n", text.unwrap_or_default())
}

/// All values that the schema describes, in order.
///
/// # Panics
/// When the file is not JSON.
pub fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    collect("", &read(), &mut settings);
    settings
}

fn read() -> Value {
    let text = files::read(&format!("{FOLDER}/values.schema.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("values.schema.json: {error}"))
}

fn collect(name: &str, schema: &Value, settings: &mut Vec<Setting>) {
    if let Some(description) = schema["description"].as_str() {
        settings.push(Setting {
            name: name.to_owned(),
            description: description.to_owned(),
        });
        return;
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let dot = if name.is_empty() { "" } else { "." };
        collect(&format!("{name}{dot}{key}"), schema, settings);
    }
}

/// Schema of a configuration, with the names of its fields but `without`.
fn fields<T: DeserializeOwned>(without: &[&str]) -> Value {
    let mut unknown: BTreeSet<_> = without.iter().copied().collect();
    let schema = table::<T>("", &|value| value, &mut unknown);
    assert!(unknown.is_empty(), "no fields {unknown:?}");
    schema
}

/// Schema of a table that `place` puts into a configuration.
fn table<T: DeserializeOwned>(
    path: &str,
    place: &dyn Fn(Value) -> Value,
    without: &mut BTreeSet<&str>,
) -> Value {
    let names = names::<T>(&place(json!({NO_FIELD: 1})));
    let names = names.unwrap_or_else(|| panic!("`{path}` is no table"));
    let mut properties = Map::new();
    for name in names {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}");
        if without.remove(path.as_str()) {
            continue;
        }
        let inner = |value: Value| place(json!({&*name: value}));
        let is_table = |value: Value| names_of_place::<T>(&inner, value);
        let schema = if is_table(json!({NO_FIELD: 1})) {
            table::<T>(&path, &inner, without)
        } else if is_table(json!([{NO_FIELD: 1}])) {
            let items = table::<T>(&path, &|value| inner(json!([value])), without);
            json!({"type": "array", "items": items})
        } else if is_table(json!({"x": {NO_FIELD: 1}})) {
            let of_name = table::<T>(&path, &|value| inner(json!({"x": value})), without);
            json!({"type": "object", "additionalProperties": of_name})
        } else {
            // Numbers, and texts with units: the program checks them.
            json!({"not": {"type": "null"}})
        };
        properties.insert(name, schema);
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn names_of_place<T: DeserializeOwned>(place: &dyn Fn(Value) -> Value, value: Value) -> bool {
    names::<T>(&place(value)).is_some()
}

/// Names of the fields of the table with the unknown field, from the error of its program.
fn names<T: DeserializeOwned>(value: &Value) -> Option<Vec<String>> {
    let error = serde_json::from_value::<T>(value.clone())
        .err()?
        .to_string();
    let (_, expected) = error.split_once(&format!("unknown field `{NO_FIELD}`, expected "))?;
    let names = expected.split('`').skip(1).step_by(2).map(str::to_owned);
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_program_at_every_depth() {
        let schema = fields::<tetris_node::config::ConfigFile>(&OF_NODE);
        let names = |schema: &Value| {
            let properties = schema["properties"].as_object().unwrap();
            properties.keys().cloned().collect::<Vec<_>>()
        };
        assert!(names(&schema).contains(&"stores".to_owned()));
        assert!(!names(&schema).contains(&"network".to_owned()));
        let stores = &schema["properties"]["stores"]["items"];
        assert_eq!(names(stores), ["name", "namespaces", "path"]);
        let policies = &schema["properties"]["policy"]["properties"]["stores"];
        let policy = &policies["additionalProperties"];
        assert!(
            names(policy).contains(&"guaranteed_bytes".to_owned()),
            "{policies}"
        );
        assert_eq!(schema["properties"]["models"]["type"], Value::Null);
    }
}
