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
    let printed = config.file.to_toml().unwrap();
    assert_eq!(parsed(&printed).unwrap(), config.file, "{printed}");
}

#[test]
fn sizes_and_times_are_numbers_or_texts_with_a_unit() {
    let numbers = format!(
        "interval_secs = 90\nwatermark_check_ms = 2000\nquarantine_hours = 48\n[policy.store]\nlimit_bytes = 8589934592\nkeep_alive_secs = 300\n[ingest]\nwait_secs = 60\nmax_file_bytes = 1073741824\n{STORE}"
    );
    let texts = format!(
        "interval_secs = \"90s\"\nwatermark_check_ms = \"2s\"\nquarantine_hours = \"2d\"\n[policy.store]\nlimit_bytes = \"8GiB\"\nkeep_alive_secs = \"5m\"\n[ingest]\nwait_secs = \"1m\"\nmax_file_bytes = \"1G\"\n{STORE}"
    );
    assert_eq!(parsed(&texts).unwrap(), parsed(&numbers).unwrap());
    // The largest numbers are more than TOML's integers can express.
    let mut most = parsed(STORE).unwrap();
    most.scrub.bytes_per_sec = u64::MAX;
    most.policy.store.limit_bytes = Some(u64::MAX);
    let printed = most.to_toml().unwrap();
    assert_eq!(parsed(&printed).unwrap(), most, "{printed}");
}

#[test]
fn all_mistakes_are_found_each_with_its_line_and_the_nearest_name() {
    let text = format!(
        r#"intervall_secs = 5
listen = "localhost"
quarantine_hours = "90m"
[policy]
low_watermark_percent = 99
[policy.store]
order = "lur"
expiry = "fixed"
expire_after_secs = 1
[ingest]
queue = -1
per_user = 9
[[stores]]
nam = "x"
[[stores]]
path = "/run/b"
[[stores]]
name = "c"
path = "run/c"
{STORE}"#
    );
    let path = Path::new("/etc/node.toml");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    std::fs::write(&file, &text).unwrap();
    let flags = ConfigFlags {
        config: Some(file),
        ..ConfigFlags::default()
    };
    let error = flags.load().unwrap_err();
    let mistakes: Vec<(Option<usize>, &str, &str)> = error
        .mistakes()
        .iter()
        .map(|mistake| {
            let field = mistake.field.as_deref().unwrap_or_default();
            (mistake.line, field, mistake.message.as_str())
        })
        .collect();
    for (line, field, message) in [
        (
            1,
            "intervall_secs",
            "unknown field `intervall_secs`; did you mean `interval_secs`?",
        ),
        (2, "listen", "invalid socket address syntax"),
        (3, "quarantine_hours", "expected whole hours, found `90m`"),
        (
            5,
            "policy.low_watermark_percent",
            "expected at most high_watermark_percent",
        ),
        (
            7,
            "policy.store.order",
            "unknown variant `lur`; did you mean `lru`?",
        ),
        (
            9,
            "policy.store.expire_after_secs",
            "expected at least keep_alive_secs",
        ),
        (11, "ingest.queue", "invalid value: integer `-1`"),
        (12, "ingest.per_user", "expected 1 to 2, found 9"),
        (
            14,
            "stores[0].nam",
            "unknown field `nam`; did you mean `name`?",
        ),
        (13, "stores[0]", "missing field `name`"),
        (15, "stores[1]", "missing field `name`"),
    ] {
        assert!(
            mistakes.iter().any(|(at, of, what)| *at == Some(line)
                && *of == field
                && what.starts_with(message)),
            "{line} {field} {message}\n{mistakes:#?}"
        );
    }
    // Values of a table read in part are checked, those of the unreadable parts are not.
    assert!(
        !mistakes.iter().any(|(_, field, _)| *field == "stores"),
        "{mistakes:#?}"
    );
    // A syntax error is the only mistake, since nothing is known of the fields.
    let syntax = ConfigFile::parse("node = 1\nlisten = \n", path).unwrap_err();
    assert_eq!(syntax.mistakes()[0].line, Some(2));
    assert!(
        syntax
            .to_string()
            .starts_with("configuration `/etc/node.toml`, line 2: ")
    );
}

#[test]
fn errors_name_the_file_the_field_what_is_expected_and_what_was_found() {
    for (text, expected) in [
        (
            "interval_secs = ",
            "configuration `/etc/node.toml`, line 1: ",
        ),
        (
            "intervall_secs = 5",
            "configuration `/etc/node.toml`, line 1, field `intervall_secs`: unknown field `intervall_secs`",
        ),
        (
            "[policy.store]\nkeep_alive_secs = \"five\"",
            "configuration `/etc/node.toml`, line 2, field `policy.store.keep_alive_secs`: expected a time such as 90s, 5m or 1h 30m, or a plain number of seconds, found `five`",
        ),
        (
            "[policy.store]\nkeep_alive_secs = true",
            "configuration `/etc/node.toml`, line 2, field `policy.store.keep_alive_secs`: invalid type: boolean `true`, expected a number of seconds",
        ),
        (
            "[policy.store]\norder = \"fifo\"",
            "configuration `/etc/node.toml`, line 2, field `policy.store.order`: unknown variant `fifo`",
        ),
        (
            "listen = \"localhost\"",
            "configuration `/etc/node.toml`, line 1, field `listen`: invalid socket address syntax",
        ),
        (
            "listen = \"0.0.0.0:9460\"",
            "configuration field `listen`: expected a loopback address, such as 127.0.0.1:9460",
        ),
        (
            "[network]\ninventory = \"0.0.0.0:9466\"",
            "configuration field `network.inventory`: expected no address without kubernetes.enabled",
        ),
        (
            "node = \"n\"\n[kubernetes]\nenabled = true\n[network]\ninventory = \"0.0.0.0:9466\"\ninventory_clients = []",
            "configuration field `network.inventory_clients`: expected at least one account",
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
        let message = refused(text);
        assert!(
            message.starts_with(expected),
            "{text}\n{message}\n{expected}"
        );
    }
    let none = parsed("").unwrap().check().unwrap_err().to_string();
    assert_eq!(
        none,
        "configuration field `stores`: expected at least one store (flag --store DIR), found none"
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
