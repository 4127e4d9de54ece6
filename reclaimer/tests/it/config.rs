//! Configurations: what they may say, and what is said about wrong ones.

use std::path::Path;

use tetris_node::config::{ConfigFile, ConfigFlags};

const STORE: &str = "[[stores]]\nname = \"a\"\npath = \"/run/a\"\n";

fn parsed(text: &str) -> Result<ConfigFile, String> {
    let file = ConfigFile::parse(text, Path::new("/etc/node.toml"));
    file.map_err(|error| error.to_string())
}

/// The error of the text with one store added to it.
fn refused(text: &str) -> String {
    let checked = parsed(&format!("{text}\n{STORE}"))
        .and_then(|file| file.check().map_err(|error| error.to_string()));
    checked.unwrap_err()
}

#[test]
fn one_store_is_all_that_has_to_be_said() {
    let config = parsed(STORE).unwrap().check().unwrap();
    assert_eq!(config.file.interval_secs, 60);
    assert_eq!(config.file.listen, None);
    assert!(config.file.scrub.enabled);
    assert!(!config.file.kubernetes.enabled);
}

#[test]
fn everything_can_be_said() {
    let text = format!(
        r#"
        node = "node-1"
        listen = "127.0.0.1:9460"
        state_dir = "/var/lib/tetris"
        interval_secs = 30
        watermark_check_ms = 500
        quarantine_hours = 48
        [policy]
        high_watermark_percent = 90
        low_watermark_percent = 70
        [policy.store]
        keep_alive_secs = 120
        expiry = "learned"
        order = "lru"
        [policy.stores.a]
        guaranteed_bytes = 1000
        limit_bytes = 2000
        [reload_cost]
        fixed_ms = 50
        bytes_per_sec = 1000000
        [scrub]
        enabled = true
        bytes_per_sec = 1000
        interval_hours = 12
        depth = "full"
        [models]
        bert = ["manifest:{digest}", "sha256:{digest}"]
        [kubernetes]
        enabled = true
        annotation = "example.com/models"
        {STORE}namespaces = ["blue"]
        "#,
        digest = "ab".repeat(32)
    );
    let config = parsed(&text).unwrap().check().unwrap();
    assert_eq!(config.policy.of("a").limit_bytes, Some(2000));
    assert_eq!(config.models["bert"].len(), 2);
    // What `check` prints is a configuration, with nothing lost.
    let json = serde_json::to_string(&config.file).unwrap();
    assert_eq!(
        serde_json::from_str::<ConfigFile>(&json).unwrap(),
        config.file
    );
}

#[test]
fn errors_name_the_file_the_field_what_is_expected_and_what_was_found() {
    for (text, expected) in [
        ("interval_secs = ", "configuration `/etc/node.toml`: "),
        (
            "intervall_secs = 5",
            "configuration `/etc/node.toml`, field `intervall_secs`: unknown field `intervall_secs`",
        ),
        (
            "[policy.store]\nkeep_alive_secs = \"5m\"",
            "configuration `/etc/node.toml`, field `policy.store.keep_alive_secs`: invalid type: string \"5m\", expected u64",
        ),
        (
            "[policy.store]\norder = \"fifo\"",
            "configuration `/etc/node.toml`, field `policy.store.order`: unknown variant `fifo`",
        ),
        (
            "listen = \"localhost\"",
            "configuration `/etc/node.toml`, field `listen`: invalid socket address syntax",
        ),
        (
            "interval_secs = 0",
            "configuration field `interval_secs`: expected 1 to 86400, found 0",
        ),
        (
            "[scrub]\nbytes_per_sec = 0",
            "configuration field `scrub.bytes_per_sec`: expected 1 to 18446744073709551615, found 0",
        ),
        (
            "[policy]\nlow_watermark_percent = 99",
            "configuration field `policy.low_watermark_percent`: expected at most high_watermark_percent, which is 95, found 99",
        ),
        (
            "[policy.stores.b]\nkeep_alive_secs = 5",
            "configuration field `policy.stores.b`: expected the name of a store, found b",
        ),
        (
            "[models]\nbert = [\"manifest:ab\"]",
            "configuration field `models.bert[0]`: expected `manifest:` or `sha256:` and 64 hexadecimal digits, found manifest:ab",
        ),
        (
            "[kubernetes]\nenabled = true",
            "configuration field `node`: expected the node's name",
        ),
        (
            "[kubernetes]\nannotation = \"\"",
            "configuration field `kubernetes.annotation`: expected the key of an annotation",
        ),
        (
            "[[stores]]\nname = \"a/b\"\npath = \"/run/b\"",
            "configuration field `stores[0].name`: expected 1 to 63 letters",
        ),
        (
            "[[stores]]\nname = \"b\"\npath = \"run/b\"",
            "configuration field `stores[0].path`: expected an absolute path, found run/b",
        ),
        (
            "[[stores]]\nname = \"a\"\npath = \"/run/b\"",
            "configuration field `stores[1].name`: expected a name that no other store has, found a",
        ),
        (
            "[[stores]]\nname = \"b\"\npath = \"/run/a\"",
            "configuration field `stores[1].path`: expected another path than that of store `b`",
        ),
    ] {
        let found = refused(text);
        assert!(found.starts_with(expected), "{text}\n{found}\n{expected}");
    }
    let none = parsed("").unwrap().check().unwrap_err().to_string();
    assert_eq!(
        none,
        "configuration field `stores`: expected at least one store (flag --store NAME=PATH), found none"
    );
}

#[test]
fn flags_take_precedence_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    std::fs::write(&path, format!("interval_secs = 5\nnode = \"old\"\n{STORE}")).unwrap();
    let flags = ConfigFlags {
        config: Some(path.clone()),
        node: Some("new".to_owned()),
        interval: Some(7),
        ..ConfigFlags::default()
    };
    let config = flags.load().unwrap();
    assert_eq!(config.file.node.as_deref(), Some("new"));
    assert_eq!(config.file.interval_secs, 7);
    std::fs::remove_file(&path).unwrap();
    let error = flags.load().unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot read configuration `{}`", path.display())),
        "{error}"
    );
}
