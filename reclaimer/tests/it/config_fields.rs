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
    let mut names = BTreeSet::new();
    leaves(value, "", &mut names);
    names
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

/// Numbers without an upper limit: amounts of memory and of files, which only the machine limits;
/// speeds; and fields of rules that the documented configuration does not use.
const UNLIMITED: [&str; 20] = [
    "cold.size_bytes",
    "gpu_mirror.check_bytes_per_sec",
    "gpu_mirror.device_bytes",
    "gpu_mirror.link_bytes_per_sec",
    "gpu_mirror.pinned_bytes",
    "gpu_mirror.store_bytes",
    "gpu_mirror.template_bytes",
    "ingest.max_file_bytes",
    "mount.memory_limit_bytes",
    "mount.reserve_bytes",
    "mount.size_bytes",
    "policy.store.expire_after_secs",
    "policy.store.guaranteed_bytes",
    "policy.store.learned.min_variation",
    "policy.store.learned.standard_secs",
    "policy.store.limit_bytes",
    "policy.store.limit_inodes",
    "policy.store.record_files",
    "reload_cost.bytes_per_sec",
    "scrub.bytes_per_sec",
];

/// All leaves of a table, by the keys and indexes that lead to them.
fn paths(value: &toml::Value, path: &[String], found: &mut Vec<Vec<String>>) {
    let inside = |key: String| [path, &[key]].concat();
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                paths(value, &inside(key.clone()), found);
            }
        }
        toml::Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                paths(value, &inside(index.to_string()), found);
            }
        }
        _ => found.push(path.to_vec()),
    }
}

/// The configuration with this number at `path`, if the field takes numbers: sizes and times are
/// written as texts.
fn with_number(table: &toml::Table, path: &[String], number: i64) -> Option<ConfigFile> {
    let mut root = toml::Value::Table(table.clone());
    let place = path.iter().fold(&mut root, |value, key| match value {
        toml::Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
        other => &mut other[key.as_str()],
    });
    *place = toml::Value::Integer(number);
    ConfigFile::parse(&toml::to_string(&root).unwrap(), Path::new(README)).ok()
}

#[test]
fn every_number_has_limits() {
    let table: toml::Table = parsed(&in_full()).to_toml().unwrap().parse().unwrap();
    let mut leaves = Vec::new();
    paths(&toml::Value::Table(table.clone()), &[], &mut leaves);
    let (mut numbers, mut without) = (0, BTreeSet::new());
    for path in leaves {
        let Some(file) = with_number(&table, &path, i64::MAX) else {
            continue;
        };
        numbers += 1;
        let field = path.iter().rfind(|key| key.parse::<usize>().is_err());
        let refusal = format!("{}`: expected", field.unwrap());
        let mistakes = file.check();
        if !mistakes.is_err_and(|error| error.to_string().contains(&refusal)) {
            without.insert(path.join("."));
        }
    }
    assert!(numbers > 30, "{numbers}");
    let expected = UNLIMITED.map(str::to_owned).into();
    assert_eq!(
        without, expected,
        "fields without limits; `check` of their table sets one"
    );
}
