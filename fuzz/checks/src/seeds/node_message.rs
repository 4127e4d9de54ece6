//! The committed seeds of the target `node_message`, and messages that take much memory for their length.

use crate::node_message::{
    DECLARATIONS, GONE, LIVING, MIRROR_SERVES, MIRROR_STORES, NAMESPACE_QUESTION, PLACE,
    POD_QUESTION, RELEASE, RELEASED, REMOVE_STORE, REMOVED_STORE, REPORT,
};

const POD: &str = r#""namespace":"blue","name":"p","uid":"u""#;
const STORE: &str = r#"{"name":"blue","root":"/run/blue","id":"00112233445566778899aabbccddeeff"}"#;
const REPORTED: &str = r#"{"process":"volumes","version":"0.1.0","started_ms":7,"errors":{"csi_staging":2},"usage":{"cpu_ms":3},"volumes":{"registered":true},"sandbox":{"seccomp":true,"landlock":4,"uid":9460}}"#;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let declared = |freshness: &str, models: &str| {
        format!(r#"{{"freshness":{freshness},"pods":[{{{POD},"models":[{models}]}}]}}"#)
    };
    let current = r#"{"state":"current"}"#;
    let digest = format!(r#""sha256:{}""#, "0a".repeat(32));
    let mirror = format!(
        r#"{{"stores":[{STORE}],"store_bytes":7,"connections":8,"connections_per_user":2}}"#
    );
    let failed = |problem: &str| format!(r#"{{"error":{problem}}}"#);
    let other = format!(r#"{{"kind":"other-pod","pod":{{{POD}}},"found":"v"}}"#);
    let unknown = r#"{"kind":"unknown","what":"pod","problem":"p","next_step":"wait"}"#;
    let not_a_uuid = r#"{"kind":"not-a-uuid","namespace":"n","found":"f"}"#;
    let nested = format!("{{\"x\":{}", "[".repeat(10_000));
    [
        (
            "valid-declarations",
            DECLARATIONS,
            declared(current, &format!("{digest},\"name\"")),
        ),
        (
            "valid-declarations-stale",
            DECLARATIONS,
            declared(r#"{"since_ms":9,"state":"stale"}"#, ""),
        ),
        (
            "valid-declarations-no-cluster",
            DECLARATIONS,
            declared(r#"{"state":"no-cluster","later":1}"#, ""),
        ),
        (
            "hostile-declarations-stale-without-a-time",
            DECLARATIONS,
            declared(r#"{"state":"stale"}"#, ""),
        ),
        (
            "hostile-declarations-no-state",
            DECLARATIONS,
            declared("{}", ""),
        ),
        (
            "hostile-declarations-state",
            DECLARATIONS,
            declared(r#"{"state":"fresh"}"#, ""),
        ),
        (
            "hostile-declarations-control",
            DECLARATIONS,
            declared(current, "\"\\u001b[2J\""),
        ),
        (
            "hostile-declarations-long",
            DECLARATIONS,
            declared(current, &format!("\"{}\"", "x".repeat(20_000))),
        ),
        (
            "hostile-declarations-digest",
            DECLARATIONS,
            declared(current, "\"manifest:\\n\""),
        ),
        (
            "hostile-declarations-no-name",
            DECLARATIONS,
            declared(current, "").replace("\"name\"", "\"nam\""),
        ),
        (
            "valid-remove-store",
            REMOVE_STORE,
            r#"{"directory":"blue.x","at_once":true}"#.to_owned(),
        ),
        (
            "valid-removed",
            REMOVED_STORE,
            r#"{"outcome":"removed"}"#.to_owned(),
        ),
        (
            "valid-removed-in-use",
            REMOVED_STORE,
            r#"{"by":7,"outcome":"in-use"}"#.to_owned(),
        ),
        (
            "valid-removed-failed",
            REMOVED_STORE,
            r#"{"reason":"busy","outcome":"failed"}"#.to_owned(),
        ),
        (
            "hostile-removed-without-a-reason",
            REMOVED_STORE,
            r#"{"outcome":"failed"}"#.to_owned(),
        ),
        (
            "hostile-removed-outcome",
            REMOVED_STORE,
            r#"{"outcome":"lost"}"#.to_owned(),
        ),
        ("valid-mirror-stores", MIRROR_STORES, mirror.clone()),
        (
            "hostile-mirror-stores",
            MIRROR_STORES,
            mirror.replace(":8", ":-8"),
        ),
        (
            "valid-mirror-serves",
            MIRROR_SERVES,
            r#"{"not_open_because":"no device"}"#.to_owned(),
        ),
        (
            "valid-release",
            RELEASE,
            r#"{"stores":["blue","green"]}"#.to_owned(),
        ),
        (
            "valid-released",
            RELEASED,
            r#"{"bytes":18446744073709551615}"#.to_owned(),
        ),
        (
            "hostile-released",
            RELEASED,
            r#"{"bytes":18446744073709551616}"#.to_owned(),
        ),
        ("valid-pod-question", POD_QUESTION, format!("{{{POD}}}")),
        (
            "valid-place",
            PLACE,
            r#"{"namespace_uid":"u","host_users":false}"#.to_owned(),
        ),
        ("valid-place-unknown", PLACE, failed(unknown)),
        (
            "valid-place-not-found",
            PLACE,
            failed(r#"{"kind":"not-found","what":"pod"}"#),
        ),
        ("valid-place-other-pod", PLACE, failed(&other)),
        ("valid-place-not-a-uuid", PLACE, failed(not_a_uuid)),
        ("hostile-place-no-answer", PLACE, "{}".to_owned()),
        ("hostile-place-kind", PLACE, failed(r#"{"kind":"lost"}"#)),
        (
            "hostile-place-without-a-pod",
            PLACE,
            failed(r#"{"kind":"other-pod","found":"v"}"#),
        ),
        (
            "valid-namespace-question",
            NAMESPACE_QUESTION,
            r#"{"name":"blue","uid":"u"}"#.to_owned(),
        ),
        ("valid-gone", GONE, r#"{"gone":true}"#.to_owned()),
        ("valid-gone-unknown", GONE, failed(unknown)),
        ("hostile-gone", GONE, r#"{"gone":1}"#.to_owned()),
        ("hostile-gone-nested", GONE, nested),
        ("valid-living", LIVING, r#"{"uids":["a","b"]}"#.to_owned()),
        (
            "valid-living-before-a-list",
            LIVING,
            r#"{"uids":null}"#.to_owned(),
        ),
        ("valid-report", REPORT, REPORTED.to_owned()),
        (
            "hostile-report-process",
            REPORT,
            REPORTED.replace("volumes", "others"),
        ),
        ("hostile-no-bytes", DECLARATIONS, String::new()),
    ]
    .map(|(name, message, text)| (name, of(message, &text)))
    .into()
}

/// Messages of many short entries, also in fields that no version has.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let list = |entry: &str| format!("[{}]", vec![entry; 500_000 / entry.len()].join(","));
    let texts: Vec<_> = (0..60_000).map(|at| format!("\"{at:x}\"")).collect();
    let texts = texts.join(",");
    let lists = list("[]");
    let declared = |freshness: &str, more: &str| {
        format!(r#"{{"freshness":{{{freshness}}},"pods":[{{{POD}{more}}}]}}"#)
    };
    [
        (
            "models",
            DECLARATIONS,
            declared(r#""state":"current""#, &format!(r#","models":[{texts}]"#)),
        ),
        (
            "unknown of a pod",
            DECLARATIONS,
            declared(
                r#""state":"current""#,
                &format!(r#","models":[],"x":{lists}"#),
            ),
        ),
        (
            "unknown of a state",
            DECLARATIONS,
            declared(
                &format!(r#""x":{lists},"state":"current""#),
                r#","models":[]"#,
            ),
        ),
        (
            "unknown of an outcome",
            REMOVED_STORE,
            format!(r#"{{"x":{lists},"outcome":"removed"}}"#),
        ),
        (
            "unknown of an answer",
            GONE,
            format!(r#"{{"x":{lists},"gone":true}}"#),
        ),
        (
            "unknown of a problem",
            PLACE,
            format!(r#"{{"error":{{"x":{lists},"kind":"not-found","what":"p"}}}}"#),
        ),
        (
            "stores",
            MIRROR_STORES,
            format!(
                r#"{{"stores":{},"connections":1,"connections_per_user":1}}"#,
                list(r#"{"name":"","root":"","id":""}"#)
            ),
        ),
        ("names", RELEASE, format!(r#"{{"stores":[{texts}]}}"#)),
        ("namespaces", LIVING, format!(r#"{{"uids":[{texts}]}}"#)),
    ]
    .map(|(name, message, text)| (name, of(message, &text)))
    .into()
}

fn of(message: u8, text: &str) -> Vec<u8> {
    [&[message], text.as_bytes()].concat()
}
