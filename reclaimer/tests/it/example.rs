//! The example configuration for one machine, `deploy/systemd/node.toml`: the daemon accepts it, and it
//! explains every field with its default.

use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::Value;
use tetris_node::cli::Cli;
use tetris_node::config::ConfigFile;

/// Fields for clusters alone, and names of one's own; the example leaves them out.
const LEFT_OUT: [&str; 13] = [
    "csi",
    "kubernetes",
    "models",
    "mount.memory_limit_bytes",
    "mount.reserve_bytes",
    "mount.user",
    "network.inventory",
    "network.inventory_clients",
    "node",
    "policy.namespaces",
    "policy.stores",
    "processes",
    "stores.0.namespaces",
];

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd/node.toml")
}

/// The example as it is.
fn example() -> String {
    std::fs::read_to_string(path()).unwrap()
}

/// The example with every setting in force: a `#` without a space after it is removed.
fn everything() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting.to_owned(),
        _ => line.to_owned(),
    };
    example().lines().map(|text| line(text) + "\n").collect()
}

fn parsed(text: &str) -> ConfigFile {
    ConfigFile::parse(text, &path()).unwrap_or_else(|error| panic!("{error}"))
}

/// All values that are no tables or lists of tables, by their paths.
fn leaves(value: &Value, path: &str, into: &mut Vec<(String, Value)>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                leaves(field, &below(name), into);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &below(&index.to_string()), into);
            }
        }
        leaf => into.push((path.to_owned(), leaf.clone())),
    }
}

fn leaves_of(value: &Value) -> Vec<(String, Value)> {
    let mut names = Vec::new();
    leaves(value, "", &mut names);
    names
}

fn left_out(path: &str) -> bool {
    let begins = |field: &str| path == field || path.starts_with(&format!("{field}."));
    LEFT_OUT.iter().any(|field| begins(field))
}

#[test]
fn the_daemon_accepts_the_example_and_a_program_finds_its_store() {
    let config = parsed(&example()).check().unwrap();
    let mount = config.tables.mount.unwrap();
    let [store] = config.file.stores.as_slice() else {
        panic!("expected one store, found {:?}", config.file.stores);
    };
    assert_eq!(
        store.path,
        Path::new(tetris_agent::store_location::MOUNT_POINT)
    );
    assert_eq!(store.path, mount.path);
    let listen = config.file.listen.unwrap();
    assert!(listen.ip().is_loopback(), "{listen}");
}

#[test]
fn every_field_is_in_the_example_and_has_a_type_that_the_daemon_reads() {
    let text = everything();
    let mut file = parsed(&text);
    let fields = leaves_of(&serde_json::to_value(&file).unwrap());
    assert!(fields.len() > 60, "only {} fields", fields.len());
    let written: Value = toml::from_str(&text).unwrap();
    let written: Vec<_> = leaves_of(&written)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    let missing: Vec<_> = fields
        .iter()
        .map(|(path, _)| path)
        .filter(|path| !left_out(path) && !written.contains(path))
        .collect();
    assert!(
        missing.is_empty(),
        "{} does not explain {missing:?}",
        path().display()
    );
    // Of the two sizes of the tmpfs only one is allowed.
    file.mount.as_mut().unwrap().size_bytes = None;
    // So of the two forms of a limit.
    file.policy.store.limit_percent = None;
    file.check().unwrap();
}

#[test]
fn settings_that_are_commented_out_show_their_defaults() {
    let shown = leaves_of(&serde_json::to_value(parsed(&everything())).unwrap());
    for (path, default) in leaves_of(&serde_json::to_value(parsed(&example())).unwrap()) {
        // Without a default, the line is an example.
        if default.is_null() || left_out(&path) {
            continue;
        }
        let shown = shown.iter().find(|(other, _)| *other == path);
        let shown = shown.unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(shown.1, default, "{path}");
    }
    // Optional tables have their own defaults.
    let optional =
        "[gpu_mirror]\ndevice_bytes = 34359738368\n[[stores]]\nname = \"a\"\npath = \"/a\"\n";
    let defaults = serde_json::to_value(parsed(optional)).unwrap();
    for (path, default) in leaves_of(&defaults["gpu_mirror"]) {
        if !default.is_null() {
            let path = format!("gpu_mirror.{path}");
            let shown = shown.iter().find(|(other, _)| *other == path).unwrap();
            assert_eq!(shown.1, default, "{path}");
        }
    }
}

#[test]
fn the_service_runs_commands_that_the_program_has() {
    let unit = |name| std::fs::read_to_string(path().with_file_name(name)).unwrap();
    let unit = unit("tetris-store.service") + &unit("tetris-node.service");
    let mut subcommands = Vec::new();
    for line in unit.lines().filter(|line| line.starts_with("Exec")) {
        let (_, command) = line.split_once('=').unwrap();
        let command = command.trim_start_matches(['-', '+']);
        let words: Vec<_> = command.split_whitespace().collect();
        if words[0] == "/usr/bin/tetris-node" {
            let parsed = Cli::try_parse_from(&words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            assert_eq!(words[2..], ["--config", "/etc/tetris/node.toml"], "{line}");
            subcommands.push(words[1]);
        }
    }
    assert_eq!(subcommands, ["mount", "run"]);
}
