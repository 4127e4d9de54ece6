//! Every field of the configuration is documented, with its true default, and has limits.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};
use tetris_node::config::ConfigFile;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
/// Numbers that may be as large as their type allows, and why.
const UNLIMITED: [(&str, &str); 7] = [
    (
        "policy.store.guaranteed_bytes",
        "limit_bytes is its limit, where there is one",
    ),
    (
        "policy.store.limit_bytes",
        "a store may have all of its mount, of any size",
    ),
    (
        "policy.store.record_files",
        "the mount's inodes are the limit",
    ),
    (
        "reload_cost.bytes_per_sec",
        "an estimate: a load that costs nothing but its fixed part",
    ),
    ("scrub.bytes_per_sec", "as fast as the memory is"),
    ("ingest.max_file_bytes", "the store is the limit"),
    ("mount.reserve_bytes", "the memory limit is the limit"),
];

/// The documented configuration, as it stands in README.md.
fn documented() -> String {
    let text = std::fs::read_to_string(README).unwrap();
    let (_, rest) = text
        .split_once("```toml\n")
        .expect("README.md has no configuration");
    rest.split_once("```").unwrap().0.to_owned()
}

/// The same with the fields and tables in it that are comments.
fn in_full() -> String {
    let is_field = |text: &str| {
        let name = text.split_once(" = ").map_or("-", |(name, _)| name);
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name || text.starts_with('[')
    };
    let text = documented();
    let lines = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(field) if is_field(field) => field,
        _ => line,
    });
    let digest = "ab".repeat(32);
    lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace("<64 hex digits>", &digest)
}

fn parsed(text: &str) -> ConfigFile {
    ConfigFile::parse(text, Path::new(README)).unwrap_or_else(|error| panic!("{error}"))
}

/// A valid configuration with every field.
fn full() -> Value {
    let mut file = parsed(&in_full());
    // Stores of namespaces need the API server.
    file.kubernetes.enabled = true;
    file.clone()
        .check()
        .unwrap_or_else(|error| panic!("{README}: {error}"));
    serde_json::to_value(file).unwrap()
}

/// Paths of all leaves of a table; elements of lists go by their table's name.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(table) => {
            for (name, inner) in table {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                leaves(inner, &path, found);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for inner in list {
                leaves(inner, path, found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn leaves_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    leaves(value, "", &mut found);
    found
}

#[test]
fn every_field_is_documented() {
    let written: toml::Table = in_full().parse().unwrap();
    let written = leaves_of(&serde_json::to_value(written).unwrap());
    let missing: Vec<String> = leaves_of(&full()).difference(&written).cloned().collect();
    assert!(
        missing.is_empty(),
        "the configuration in reclaimer/README.md lacks {missing:?}"
    );
}

#[test]
fn the_documented_values_are_the_defaults() {
    let file = parsed(&documented());
    let expected = ConfigFile {
        stores: file.stores.clone(),
        ..ConfigFile::default()
    };
    assert_eq!(
        file, expected,
        "values in reclaimer/README.md that are not commented out"
    );
}

/// All numbers of a table, by their paths.
fn numbers(table: &Map<String, Value>, path: &[String], found: &mut Vec<Vec<String>>) {
    for (name, value) in table {
        let path = [path, std::slice::from_ref(name)].concat();
        match value {
            Value::Number(number) if number.is_u64() => found.push(path),
            Value::Object(inner) => numbers(inner, &path, found),
            _ => {}
        }
    }
}

#[test]
fn every_number_has_a_limit_or_an_exception() {
    let full = full();
    let mut paths = Vec::new();
    numbers(full.as_object().unwrap(), &[], &mut paths);
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        let mut changed = full.clone();
        *changed
            .pointer_mut(&format!("/{}", path.join("/")))
            .unwrap() = u64::MAX.into();
        let dotted = path.join(".");
        let is_unlimited = UNLIMITED.iter().any(|(field, _)| *field == dotted);
        let checked = serde_json::from_value::<ConfigFile>(changed)
            .map_err(|error| error.to_string())
            .and_then(|file| file.check().map(drop).map_err(|error| error.to_string()));
        assert_eq!(
            checked.is_ok(),
            is_unlimited,
            "{dotted} = {}: {checked:?}; check it in reclaimer/src/config/check.rs, or give a \
             reason in UNLIMITED",
            u64::MAX
        );
    }
}
