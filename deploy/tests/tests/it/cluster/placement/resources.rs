//! Resources of the test.

use serde_json::{Value, json};
use tetris_deploy_tests::objects::Objects;

use crate::cluster::install::SYSTEM;

pub const NAMESPACE: &str = "tetris-e2e-placement";

/// Name of a simulated node.
pub fn node_name(number: usize) -> String {
    format!("placement-{number:03}")
}

/// Number of CPUs of a simulated node.
pub fn cpus(number: usize) -> u64 {
    [8, 16, 12][number % 3]
}

/// The scaler's namespace, and one that lets it and the opener of gates write.
pub fn namespaces() -> Objects {
    let namespace =
        |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let binding = |account: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": account, "namespace": NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}],
        })
    };
    Objects(vec![
        namespace(SYSTEM),
        namespace(NAMESPACE),
        binding("tetris-scaler", "tetris-scaler-namespace"),
        binding("tetris-gates", "tetris-gates-namespace"),
    ])
}

/// Two configurations with 20 and 40 requests per second; the second has less memory for each.
pub fn profile(number: usize) -> Value {
    let latency = json!({"p50": 50_000, "p90": 50_000, "p95": 50_000, "p99": 50_000});
    let configuration = |cpu: u64, concurrency: u64, mib: u64| {
        json!({
            "cpuMillis": cpu, "batch": 1, "concurrency": concurrency, "ownBytes": mib << 20, "latencyMicros": latency,
        })
    };
    let id = format!("{number:02x}").repeat(32);
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {"name": format!("p{number}"), "namespace": NAMESPACE},
        "spec": {
            "model": format!("p{number}"),
            "configurations": [configuration(1_000, 1, 256), configuration(2_000, 2, 400)],
            "objects": [{"id": id, "bytes": 2_u64 << 30}],
        },
    })
}

pub fn function(name: &str, profile: usize) -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "profile": format!("p{profile}"),
            "slo": {"latencyMillis": 200},
            "load": {"static": {"requestsPerSecond": 0}},
            "maxInstances": 2_000,
            "template": {"spec": {
                "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "server", "image": "example.com/server:1"}],
            }},
        },
    })
}
