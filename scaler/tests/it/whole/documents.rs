//! Resources of the tests.

use serde_json::{Value, json};

/// Name of the only configuration of [`profile`]: an instance carries 100 requests per second.
pub const CONFIGURATION: &str = "c1500-b4-p2";
/// Time for which a load must stay low, in seconds.
pub const WINDOW: u64 = 4;
/// Digits that form the object id of [`profile`]'s tensors.
pub const OBJECT: &str = "ab";

pub fn profile() -> Value {
    let micros = json!({"p50": 80_000, "p90": 80_000, "p95": 80_000, "p99": 80_000});
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile", "metadata": {},
        "spec": {
            "model": "m",
            "configurations": [{
                "cpuMillis": 1_500, "batch": 4, "concurrency": 2, "ownBytes": 100 << 20, "latencyMicros": micros,
            }],
            "objects": [{"id": OBJECT.repeat(32), "bytes": 400 << 20}],
        },
    })
}

/// Returns a function with its name as the query.
pub fn function(name: &str) -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction", "metadata": {},
        "spec": {
            "profile": "m",
            "slo": {"latencyMillis": 200},
            "template": {"spec": {"containers": [{"name": "main", "image": "server"}]}},
            "load": {"prometheus": {"query": name, "perPodQuery": format!("pods of {name}")}},
            "scaleIn": {"windowSeconds": WINDOW},
        },
    })
}

pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}
