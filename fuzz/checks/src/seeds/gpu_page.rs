//! The committed seeds of the target `gpu_page`, and pages that take much memory for their length.

const MODEL: &str = r#"{"name":"a","model":"c","state":"absent"}"#;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let parts = r#"{"name":"a","model":"c","state":"resident","held":false,"parts":[{"id":"x","bytes":1},{"id":"y","bytes":2}]}"#;
    let whole = format!(
        r#"{{"uuid":"GPU-1","node":"n","capacity_bytes":10,"bytes_per_second":7,"switch":"s","links":[{{"to":"GPU-2","bytes_per_second":9}}],"models":[{parts}]}}"#
    );
    let seeds = [
        ("valid-whole", whole.clone()),
        ("valid-least", page("")),
        ("valid-more-fields", whole.replace("\"node\"", "\"later\"")),
        ("hostile-no-bytes", String::new()),
        ("hostile-cut", whole[..whole.len() - 3].to_owned()),
        ("hostile-list", format!("[{whole}]")),
        ("hostile-state", page(&MODEL.replace("absent", "lost"))),
        ("hostile-negative", whole.replace(":10", ":-10")),
        ("hostile-large-number", whole.replace(":10", ":1e300")),
        (
            "hostile-control-in-state",
            page(&MODEL.replace("absent", "\\u001b[2J\\n")),
        ),
        (
            "hostile-long-state",
            page(&MODEL.replace("absent", &"x".repeat(20_000))),
        ),
        ("hostile-nested", "[".repeat(10_000)),
        ("hostile-models", page(&vec![MODEL; 4_097].join(","))),
    ];
    seeds.map(|(name, text)| (name, text.into_bytes())).into()
}

/// Pages of many short entries.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let link = r#"{"to":"","bytes_per_second":0}"#;
    let part = r#"{"id":"","bytes":0}"#;
    let parts = |number: usize| {
        let parts = vec![part; number].join(",");
        page(&MODEL.replace('}', &format!(r#","parts":[{parts}]}}"#)))
    };
    let links = |number: usize| {
        let links = vec![link; number].join(",");
        page("").replace("\"models\"", &format!("\"links\":[{links}],\"models\""))
    };
    let escaped = MODEL.replace("\"a\"", &format!("\"{}\"", "\\n".repeat(256)));
    [
        ("models", page(&vec![MODEL; 4_096].join(","))),
        ("too many models", page(&vec![MODEL; 70_000].join(","))),
        ("parts", parts(16_384)),
        ("too many parts", parts(140_000)),
        ("links", links(256)),
        ("too many links", links(70_000)),
        ("escapes", page(&vec![escaped.as_str(); 4_096].join(","))),
        (
            "too many escapes",
            MODEL.replace('a', &"\\n".repeat(500_000)),
        ),
        ("too many brackets", "[".repeat(1_000_000)),
        (
            "too many digits",
            page("").replace(":1", &format!(":{}", "1".repeat(1_000_000))),
        ),
        (
            "unknown",
            page("").replace(
                "\"models\"",
                &format!("\"x\":[{}1],\"models\"", "1,".repeat(500_000)),
            ),
        ),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

fn page(models: &str) -> String {
    format!(r#"{{"uuid":"u","capacity_bytes":1,"models":[{models}]}}"#)
}
