//! Unknown and contradictory values: Helm refuses them, and names the value.

use super::{folder, helm};

/// Values, and parts of the message.
const REFUSED: [(&str, &[&str]); 29] = [
    ("nodes: {}", &["nodes"]),
    ("node: {sise: 1Gi}", &["/node", "sise"]),
    ("node: {size: 8}", &["/node/size", "string"]),
    ("node: {size: lots}", &["/node/size", "lots"]),
    ("node: {config: {polcy: {}}}", &["/node/config", "polcy"]),
    (
        "node: {config: {policy: {store: {keep_alive: 1}}}}",
        &["/node/config/policy/store", "keep_alive"],
    ),
    (
        "node: {config: {stores: [{nam: a}]}}",
        &["/node/config/stores/0", "nam"],
    ),
    (
        "node: {config: {network: {metrics: '0.0.0.0:1'}}}",
        &["/node/config", "network"],
    ),
    ("node: {kubeletDir: kubelet}", &["/node/kubeletDir"]),
    (
        "node: {nodeSelector: {kubernetes.io/os: windows}}",
        &["/node/nodeSelector/kubernetes.io"],
    ),
    (
        "node: {tolerations: [{effect: Never}]}",
        &["/node/tolerations/0/effect"],
    ),
    ("webhook: {replicas: 0}", &["/webhook/replicas"]),
    ("images: {node: {digest: abc}}", &["/images/node/digest"]),
    ("images: {nodes: {tag: a}}", &["/images", "nodes"]),
    ("gateway: {config: {tls: {}}}", &["/gateway/config", "tls"]),
    ("traces: {endpoint: collector}", &["/traces/endpoint"]),
    (
        "monitoring: {labels: {app.kubernetes.io/name: a}}",
        &["/monitoring/labels/app.kubernetes.io"],
    ),
    (
        "images: {node: {tag: a, digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}}",
        &["images.node", "found both"],
    ),
    ("node: {csi: false}", &["node.csi", "node.config.stores"]),
    (
        "node: {csi: false, config: {stores: [{name: a, path: /a}]}}\nwebhook: {enabled: true}",
        &["webhook.enabled", "node.csi"],
    ),
    (
        "node: {csi: false, config: {stores: [{name: a, path: /a}]}}\nscaler: {enabled: true}",
        &["scaler.enabled", "node.csi"],
    ),
    (
        "node: {csi: false, config: {csi: {idmap: 'off'}, stores: [{name: a, path: /a}]}}",
        &["node.config.csi", "node.csi"],
    ),
    (
        "node: {storePerNamespace: false}",
        &["node.storePerNamespace", "node.config.stores"],
    ),
    (
        "node: {storePerNamespace: false, config: {csi: {per_namespace: {limit: 1}}, stores: [{name: a, path: /a}]}}",
        &["node.config.csi.per_namespace", "node.storePerNamespace"],
    ),
    (
        "node: {config: {gpu_mirror: {device_bytes: 1GiB}}}",
        &["node.config.gpu_mirror", "gpu.enabled"],
    ),
    (
        "gateway: {enabled: true}",
        &["gateway.enabled", "scaler.enabled"],
    ),
    (
        "gateway: {endpointPicker: {enabled: true}}",
        &["gateway.endpointPicker.enabled", "gateway.enabled"],
    ),
    (
        "scaler: {engines: {vllm: {enabled: true}}}",
        &["scaler.engines.vllm.enabled", "scaler.enabled"],
    ),
    (
        "scaler: {enabled: true}\ngateway: {enabled: true, endpointPicker: {enabled: true}, config: {callers: {proxy_namespaces: [a]}}}",
        &["gateway.config.callers.proxy_namespaces", "proxyNamespace"],
    ),
];

#[test]
fn unknown_and_contradictory_values_are_refused_by_name() {
    let Some(helm) = helm() else { return };
    for (values, parts) in REFUSED {
        let error = helm.template(&folder(), "tetris-system", values);
        let error = error.expect_err(values).to_string();
        for part in parts {
            assert!(error.contains(part), "{values}: no `{part}` in {error}");
        }
    }
}
