//! Combinations of values, which tests render, check against Kubernetes, and compare with overlays.

/// Values of the chart.
#[derive(Debug, Clone, Copy)]
pub struct Combination {
    /// Name for messages.
    pub name: &'static str,
    /// The values, as YAML.
    pub values: &'static str,
    /// Golden files with the same objects: an overlay, and what is applied beside it. Empty where there is no such overlay.
    pub golden: &'static [&'static str],
}

const fn combination(
    name: &'static str,
    values: &'static str,
    golden: &'static [&'static str],
) -> Combination {
    Combination {
        name,
        values,
        golden,
    }
}

const DEDICATED: &str = "
node:
  storePerNamespace: false
  config:
    stores:
      - {name: search, path: /var/lib/tetris/stores/search, namespaces: [search-production, search-staging]}
      - {name: speech, path: /var/lib/tetris/stores/speech, namespaces: [speech]}
      - {name: research, path: /var/lib/tetris/stores/research, namespaces: [research]}
    policy:
      stores:
        search: {guaranteed_bytes: 3221225472}
        speech: {guaranteed_bytes: 2147483648}
        research: {limit_bytes: 2147483648, expiry: fixed, expire_after_secs: 1800}
";

const DEVELOPMENT: &str = "
node:
  csi: false
  size: 1Gi
  config:
    interval_secs: 10
    stores: [{name: dev, path: /var/lib/tetris/stores/dev}]
";

const EVERYTHING: &str = "
images: {registry: registry.example.com/team, pullSecrets: [{name: registry}], node: {tag: v1}, agent: {digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}}
node:
  size: 32Gi
  kubeletDir: /data/kubelet
  nodeSelector: {pool: models}
  tolerations: [{key: models, operator: Exists, effect: NoSchedule}]
  config: {policy: {high_watermark_percent: 90, store: {limit_bytes: 8GiB}}, gpu_mirror: {device_bytes: 32GiB}}
gpu: {enabled: true, memory: 4Gi, runtimeClassName: nvidia-cdi}
webhook: {enabled: true, replicas: 3, nodeSelector: {a: b}, tolerations: [{operator: Exists}]}
scaler:
  enabled: true
  arguments: [--interval-seconds, '5']
  prometheusUrl: http://prometheus.metrics:8080
  models: {tolerations: [{key: models, operator: Exists}]}
  engines: {vllm: {enabled: true, image: registry.example.com/vllm:1}}
  nodeSelector: {a: b}
  tolerations: [{operator: Exists}]
gateway:
  enabled: true
  tls: {enabled: true, secretName: front-tls}
  endpointPicker: {enabled: true, proxyNamespace: proxies}
  config: {limits: {connections: 100}}
  nodeSelector: {a: b}
  tolerations: [{operator: Exists}]
monitoring: {enabled: true, namespace: metrics, labels: {release: prometheus}}
traces: {enabled: true, endpoint: 'http://collector.tracing:14317', namespace: tracing, samplerArgument: '1'}
";

/// All combinations.
pub const COMBINATIONS: [Combination; 16] = [
    combination("defaults", "{}", &["node"]),
    combination("webhook", "webhook: {enabled: true}", &["webhook"]),
    combination("scaler", "scaler: {enabled: true}", &["scaler"]),
    combination(
        "webhook and scaler",
        "webhook: {enabled: true}\nscaler: {enabled: true}",
        &["placement"],
    ),
    combination(
        "gateway",
        "scaler: {enabled: true}\ngateway: {enabled: true}",
        &["gateway"],
    ),
    combination(
        "endpoint picker",
        "scaler: {enabled: true}\ngateway: {enabled: true, endpointPicker: {enabled: true}}",
        &["endpoint-picker"],
    ),
    combination(
        "traces",
        "scaler: {enabled: true}\ngateway: {enabled: true}\ntraces: {enabled: true}",
        &["traces"],
    ),
    combination(
        "webhook, scaler and gateway",
        "webhook: {enabled: true}\nscaler: {enabled: true}\ngateway: {enabled: true}",
        &["complete"],
    ),
    combination(
        "the same with monitoring",
        "webhook: {enabled: true}\nscaler: {enabled: true}\ngateway: {enabled: true}\nmonitoring: {enabled: true}",
        &["complete", "monitoring"],
    ),
    combination("named stores", DEDICATED, &["dedicated"]),
    combination("a directory of the node", DEVELOPMENT, &["development"]),
    combination("GPU mirror", "gpu: {enabled: true}", &["gpu"]),
    combination(
        "nodes with and without GPUs",
        "node: {tolerateGpuTaint: true}\nmonitoring: {enabled: true, rules: false, dashboards: false}",
        &[],
    ),
    combination(
        "traces of daemons and webhook",
        "webhook: {enabled: true}\ntraces: {enabled: true}\nnetworkPolicies: false",
        &[],
    ),
    combination(
        "GPU mirror with the directory of the node",
        "gpu: {enabled: true}\nnode: {csi: false, config: {stores: [{name: a, path: /var/lib/tetris/stores/a}]}}\nscaler: {customResourceDefinitions: false}",
        &[],
    ),
    combination("everything", EVERYTHING, &[]),
];
