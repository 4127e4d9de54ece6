//! The committed seeds of the target `hub_index`.

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let long = format!(r#"{{"weight_map":{{"w":"{}"}}}}"#, "a".repeat(5000));
    let deep = "[".repeat(200);
    let mut seeds: Vec<(&'static str, Vec<u8>)> = TEXTS
        .iter()
        .map(|(name, text)| (*name, text.as_bytes().to_vec()))
        .collect();
    seeds.extend([
        ("hostile-long-name", long.into_bytes()),
        ("hostile-nested", deep.into_bytes()),
        (
            "hostile-not-utf8",
            b"{\"weight_map\":{\"\xff\":\"a\"}}".to_vec(),
        ),
    ]);
    seeds
}

const TEXTS: &[(&str, &str)] = &[
    (
        "valid-two-shards",
        r#"{"metadata":{"total_size":12},"weight_map":{"w":"a.safetensors","v":"b.safetensors","u":"a.safetensors"}}"#,
    ),
    (
        "valid-below",
        r#"{"weight_map":{"w":"./sub/./c.safetensors","v":"sub/c.safetensors"}}"#,
    ),
    (
        "valid-duplicate-tensor",
        r#"{"weight_map":{"w":"gone","w":"a.safetensors"}}"#,
    ),
    ("hostile-no-bytes", ""),
    ("hostile-no-map", r#"{"weight_map":[]}"#),
    ("hostile-empty", r#"{"weight_map":{}}"#),
    ("hostile-number", r#"{"weight_map":{"w":7}}"#),
    (
        "hostile-above",
        r#"{"weight_map":{"w":"../a.safetensors"}}"#,
    ),
    ("hostile-absolute", r#"{"weight_map":{"w":"/etc/passwd"}}"#),
    ("hostile-nul", r#"{"weight_map":{"w":"a\u0000b"}}"#),
    (
        "hostile-terminal",
        r#"{"weight_map":{"w":"\u001b[2Ja.safetensors"}}"#,
    ),
    ("hostile-dot", r#"{"weight_map":{"w":"."}}"#),
    (
        "hostile-missing",
        r#"{"weight_map":{"w":"gone.safetensors"}}"#,
    ),
    ("hostile-folder", r#"{"weight_map":{"w":"sub"}}"#),
    (
        "hostile-below-a-file",
        r#"{"weight_map":{"w":"a.safetensors/b"}}"#,
    ),
    (
        "hostile-trailing",
        r#"{"weight_map":{"w":"a.safetensors"}}x"#,
    ),
];
