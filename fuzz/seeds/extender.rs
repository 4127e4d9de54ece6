//! The committed seeds of the target `extender`.

use serde_json::{Value, json};

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let pod = |metadata: Value| json!({"metadata": metadata, "spec": {"containers": []}});
    let bert = || {
        pod(
            json!({"namespace": "serving", "labels": {"tetris.dev/function": "bert"},
            "annotations": null}),
        )
    };
    let by_profile = pod(json!({"namespace": "serving", "labels": null,
        "annotations": {"tetris.dev/profile": "bert"}}));
    let full = json!({"metadata": {"resourceVersion": "7"}, "items": [
        {"metadata": {"name": "warm", "labels": {"a": "b"}}, "status": {"allocatable": {"cpu": "8"}}},
        {"metadata": {"name": "full"}},
        {"metadata": {"name": "unknown"}},
    ]});
    let names = json!([
        "warm", "half", "cold", "full", "busy", "silent", "unknown", "warm"
    ]);
    let requests = [
        (
            "valid-names",
            json!({"Pod": bert(), "Nodes": null, "NodeNames": names}),
        ),
        (
            "valid-full",
            json!({"Pod": bert(), "Nodes": full, "NodeNames": null}),
        ),
        (
            "valid-lower-case",
            json!({"pod": bert(), "nodenames": names}),
        ),
        (
            "valid-profile",
            json!({"Pod": by_profile, "NodeNames": names}),
        ),
        ("valid-no-model", json!({"Pod": {}, "NodeNames": names})),
        ("valid-no-nodes", json!({"Pod": bert(), "NodeNames": []})),
        (
            "valid-null-items",
            json!({"Pod": bert(), "Nodes": {"items": null}}),
        ),
        ("hostile-neither", json!({"Pod": bert()})),
        ("hostile-no-pod", json!({"NodeNames": names})),
        (
            "hostile-node-without-name",
            json!({"Pod": bert(), "Nodes": {"items": [{}]}}),
        ),
        (
            "hostile-number",
            json!({"Pod": {"metadata": 7}, "NodeNames": []}),
        ),
        ("hostile-list", json!([])),
    ];
    let mut seeds: Vec<(&'static str, Vec<u8>)> = requests
        .into_iter()
        .map(|(name, request)| (name, request.to_string().into_bytes()))
        .collect();
    seeds.extend([
        ("hostile-no-bytes", Vec::new()),
        (
            "hostile-nested",
            [b"{\"Pod\":".as_slice(), &b"[".repeat(300)].concat(),
        ),
    ]);
    seeds
}
