//! Every field of the configuration is documented, with its true default.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tetris_node::config::ConfigFile;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
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
    let missing: Vec<String> = leaves_of(&serde_json::to_value(parsed(&in_full())).unwrap())
        .difference(&written)
        .cloned()
        .collect();
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
