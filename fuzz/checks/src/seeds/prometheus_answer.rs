//! The committed seeds of the target `prometheus_answer`, and answers that take much memory for their length.

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let two =
        r#"[{"metric":{"pod":"a","x":"y"},"value":[1.5,"2.5"]},{"metric":{},"value":[1.5,"1"]}]"#;
    let sample = |value: &str| {
        answer(
            "vector",
            &format!(r#"[{{"metric":{{"pod":"a"}},"value":[1,"{value}"]}}]"#),
        )
    };
    [
        ("valid-vector", answer("vector", two)),
        ("valid-scalar", answer("scalar", r#"[1.5,"7"]"#)),
        (
            "valid-no-labels",
            answer("vector", r#"[{"value":[0,"0"]}]"#),
        ),
        (
            "valid-result-first",
            r#"{"data":{"result":[1,"2"],"resultType":"scalar"}}"#.to_owned(),
        ),
        ("hostile-empty", answer("vector", "[]")),
        ("hostile-no-bytes", String::new()),
        ("hostile-no-data", "{}".to_owned()),
        ("hostile-matrix", answer("matrix", "[]")),
        ("hostile-kind", answer(&"\\u001b\\n".repeat(5_000), "[]")),
        ("hostile-nan", sample("NaN")),
        ("hostile-infinite", sample("+Inf")),
        ("hostile-too-large", sample("1e10")),
        ("hostile-negative", sample("-1")),
        ("hostile-control", sample("\\u0007\\u001b[2J")),
        ("hostile-long-value", sample(&"9".repeat(20_000))),
        ("hostile-number", answer("vector", r#"[{"value":[0,1]}]"#)),
        ("hostile-result", answer("vector", "7")),
        (
            "hostile-result-twice",
            r#"{"data":{"resultType":"scalar","result":[1,"2"],"result":[1,"3"]}}"#.to_owned(),
        ),
        ("hostile-cut", answer("vector", two)[..60].to_owned()),
        ("hostile-nested", answer("vector", &"[".repeat(10_000))),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

/// Answers of many short entries.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let list = |entry: &str| format!("[{}]", vec![entry; 1_000_000 / entry.len()].join(","));
    let pods = (0..30_000).map(|at| format!(r#"{{"metric":{{"pod":"{at:x}"}},"value":[0,"1"]}}"#));
    let pods = format!("[{}]", pods.collect::<Vec<_>>().join(","));
    let labels = (0..100_000).map(|at| format!(r#""{at:x}":"""#));
    let labels = labels.collect::<Vec<_>>().join(",");
    [
        ("samples", answer("vector", &list(r#"{"value":[0,"1"]}"#))),
        ("pods", answer("vector", &pods)),
        (
            "labels",
            answer(
                "vector",
                &format!(r#"[{{"metric":{{{labels}}},"value":[0,"1"]}}]"#),
            ),
        ),
        (
            "label for each",
            answer("vector", &list(r#"{"metric":{"a":""},"value":[0,"1"]}"#)),
        ),
        ("lists", answer("vector", &list("[]"))),
        ("lists of a scalar", answer("scalar", &list("[]"))),
        ("objects of a matrix", answer("matrix", &list("{}"))),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

fn answer(kind: &str, result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
}
