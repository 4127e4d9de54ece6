//! The committed seeds of the target `loads_page`, and pages that take much memory for their length.

const LEAST: &str = r#"{"namespace":"n","function":"f","requests":0,"waiting":0,"in_flight":0}"#;
const WHOLE: &str = r#"{"namespace":"search","function":"embed","requests":5,"waiting":3,"in_flight":2,"oldest_wait_ms":120,"later":1,"latency":{"p50_ms":1.5,"p95_ms":20,"p99_ms":30.25},"instances":[{"pod":"x","outstanding":2},{"pod":"x","outstanding":18446744073709551615}]}"#;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let whole = page(WHOLE);
    [
        ("valid-whole", whole.clone()),
        ("valid-least", page(LEAST)),
        ("valid-no-function", page("")),
        ("hostile-no-bytes", String::new()),
        ("hostile-cut", whole[..whole.len() - 3].to_owned()),
        (
            "hostile-version",
            whole.replace("\"version\":1", "\"version\":2"),
        ),
        (
            "hostile-gateway",
            whole.replace("\"gateway\":\"a\"", "\"gateway\":\"\\u0007b\""),
        ),
        ("hostile-latency", whole.replace(":20", ":1e300")),
        ("hostile-negative-latency", whole.replace(":20", ":-20")),
        ("hostile-twice", page(&[LEAST, LEAST].join(","))),
        (
            "hostile-name-twice",
            page(&[LEAST, LEAST].join(",").replace("\"f\"", "\"\\u001b[2J\"")),
        ),
        (
            "hostile-long-text",
            whole.replace(":5,", &format!(":\"{}\",", "\\n".repeat(20_000))),
        ),
        ("hostile-nested", "[".repeat(10_000)),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

/// Pages of many short entries.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let functions = (0..20_000).map(|at| LEAST.replace("\"f\"", &format!("\"{at:x}\"")));
    let instances = (0..40_000).map(|at| format!(r#"{{"pod":"{at:x}","outstanding":0}}"#));
    let instances: Vec<_> = instances.collect();
    let of = format!(r#","instances":[{}]}}"#, instances.join(","));
    [
        ("functions", page(&functions.collect::<Vec<_>>().join(","))),
        ("instances", page(&LEAST.replace('}', &of))),
        (
            "no instances",
            page(&LEAST.replace('}', &format!(r#","x":[{}1]}}"#, "1,".repeat(500_000)))),
        ),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

fn page(functions: &str) -> String {
    format!(r#"{{"version":1,"gateway":"a","started_ms":7,"at_ms":9,"functions":[{functions}]}}"#)
}
