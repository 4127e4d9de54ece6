//! Values of the table `[ingest]`, and limits that follow from other tables.

use std::path::Path;

use tetris_node::config::{Config, ConfigFile};
use tetris_node::ingest::{IngestConfig, IngestOptions};

const STORES: &str = r#"
[[stores]]
name = "a"
path = "/run/a"
[[stores]]
name = "b"
path = "/run/b"
"#;

fn checked(text: &str) -> Result<Config, String> {
    let text = format!("{text}\n{STORES}");
    let file = ConfigFile::parse(&text, Path::new("/etc/node.toml")).map_err(|e| e.to_string())?;
    file.check().map_err(|error| error.to_string())
}

#[test]
fn without_the_table_files_are_taken() {
    let options = IngestOptions::from(&checked("").unwrap());
    assert_eq!(options.config, IngestConfig::default());
    assert!(options.config.enabled);
    assert_eq!(options.policy.of("a").limit_bytes, None);
    assert!(options.own.is_empty() && !options.keeps_room);
}

#[test]
fn every_field_can_be_said() {
    let text = r"
        [ingest]
        enabled = false
        concurrent = 8
        per_store = 4
        per_user = 3
        queue = 100
        queue_per_user = 50
        wait_secs = 10
        stall_secs = 5
        least_bytes_per_sec = 2097152
        max_file_bytes = 1000
        max_tensors = 10
    ";
    let expected = IngestConfig {
        enabled: false,
        concurrent: 8,
        per_store: 4,
        per_user: 3,
        queue: 100,
        queue_per_user: 50,
        wait_secs: 10,
        stall_secs: 5,
        least_bytes_per_sec: 2 << 20,
        max_file_bytes: Some(1000),
        max_tensors: 10,
    };
    assert_eq!(checked(text).unwrap().file.ingest, expected);
}

#[test]
fn each_field_that_is_wrong_is_named_with_what_it_may_be() {
    for (line, expected) in [
        (
            "concurrent = 0",
            "`ingest.concurrent`: expected 1 to 64, found 0",
        ),
        (
            "concurrent = 65",
            "`ingest.concurrent`: expected 1 to 64, found 65",
        ),
        (
            "per_store = 0",
            "`ingest.per_store`: expected 1 to 4, found 0",
        ),
        (
            "per_store = 5",
            "`ingest.per_store`: expected 1 to 4, found 5",
        ),
        (
            "per_user = 0",
            "`ingest.per_user`: expected 1 to 2, found 0",
        ),
        (
            "per_user = 3",
            "`ingest.per_user`: expected 1 to 2, found 3",
        ),
        ("queue = 0", "`ingest.queue`: expected 1 to 1024, found 0"),
        (
            "queue = 1025",
            "`ingest.queue`: expected 1 to 1024, found 1025",
        ),
        (
            "queue_per_user = 0",
            "`ingest.queue_per_user`: expected 1 to 128, found 0",
        ),
        (
            "queue_per_user = 129",
            "`ingest.queue_per_user`: expected 1 to 128, found 129",
        ),
        (
            "wait_secs = 0",
            "`ingest.wait_secs`: expected 1 to 3600, found 0",
        ),
        (
            "wait_secs = 3601",
            "`ingest.wait_secs`: expected 1 to 3600, found 3601",
        ),
        (
            "stall_secs = 0",
            "`ingest.stall_secs`: expected 1 to 3600, found 0",
        ),
        (
            "stall_secs = 3601",
            "`ingest.stall_secs`: expected 1 to 3600, found 3601",
        ),
        (
            "max_file_bytes = 0",
            "`ingest.max_file_bytes`: expected 1 to 18446744073709551615, found 0",
        ),
        (
            "least_bytes_per_sec = \"2GiB\"",
            "`ingest.least_bytes_per_sec`: expected 0 to 1073741824, found 2147483648",
        ),
        (
            "max_tensors = 0",
            "`ingest.max_tensors`: expected 1 to 2000000, found 0",
        ),
        (
            "max_tensors = 2000001",
            "`ingest.max_tensors`: expected 1 to 2000000, found 2000001",
        ),
        ("enabled = 1", "field `ingest.enabled`: invalid type"),
        ("queue = -1", "field `ingest.queue`: invalid value"),
        ("que = 1", "field `ingest.que`: unknown field `que`"),
    ] {
        let mistakes = checked(&format!("[ingest]\n{line}")).unwrap_err();
        assert!(mistakes.contains(expected), "{line}\n{mistakes}");
    }
}

#[test]
fn a_store_without_a_policy_of_its_own_has_the_limit_of_all() {
    let text = r"
        [policy.store]
        limit_bytes = 1000
        [policy.stores.b]
        keep_alive_secs = 5
    ";
    let options = IngestOptions::from(&checked(text).unwrap());
    let limit = |store| options.policy.of(store).limit_bytes;
    assert_eq!(limit("a"), Some(1000));
    // As everywhere, a store's policy is not mixed with the other.
    assert_eq!(limit("b"), None);
}
