//! Manifests as kustomize renders them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::files;

/// Name of the golden file, and the folder of `deploy/` that it is rendered from.
pub const RENDERED: [(&str, &str); 31] = [
    ("node", "overlays/node"),
    ("webhook", "overlays/webhook"),
    ("scaler", "overlays/scaler"),
    ("placement", "overlays/placement"),
    ("gateway", "overlays/gateway"),
    ("endpoint-picker", "overlays/endpoint-picker"),
    ("complete", "overlays/complete"),
    ("traces", "overlays/traces"),
    ("dedicated", "overlays/dedicated"),
    ("gpu", "overlays/gpu"),
    ("development", "overlays/development"),
    ("monitoring", "overlays/monitoring"),
    ("sample-pytorch", "samples/pytorch"),
    ("sample-onnxruntime", "samples/onnxruntime"),
    ("sample-llama-cpp", "samples/llama-cpp"),
    ("sample-vllm", "samples/vllm"),
    ("sample-kserve", "samples/kserve"),
    ("sample-scaler", "samples/scaler"),
    ("sample-development", "samples/development"),
    ("sample-pull", "samples/pull"),
    ("sample-model", "samples/model"),
    ("sample-inference-pool", "samples/inference-pool"),
    ("cluster-install", "tests/cluster/install"),
    ("cluster-pods", "tests/cluster/pods"),
    ("cluster-scaler", "tests/cluster/scaler"),
    ("cluster-function", "tests/cluster/function"),
    ("cluster-gateway", "tests/cluster/gateway"),
    ("cluster-older", "tests/cluster/older"),
    ("cluster-webhook", "tests/cluster/webhook"),
    ("cluster-kserve", "tests/cluster/kserve"),
    ("cluster-cold", "tests/cluster/cold"),
];

/// Those that install the daemon.
pub const INSTALLS: [&str; 18] = [
    "node",
    "webhook",
    "scaler",
    "placement",
    "gateway",
    "endpoint-picker",
    "complete",
    "traces",
    "dedicated",
    "gpu",
    "development",
    "cluster-install",
    "cluster-scaler",
    "cluster-gateway",
    "cluster-older",
    "cluster-webhook",
    "cluster-kserve",
    "cluster-cold",
];

/// Those of them that install the webhook.
pub const WITH_WEBHOOK: [&str; 6] = [
    "webhook",
    "placement",
    "complete",
    "cluster-older",
    "cluster-webhook",
    "cluster-kserve",
];

/// Those of them that install the scaler.
pub const WITH_SCALER: [&str; 11] = [
    "scaler",
    "placement",
    "gateway",
    "endpoint-picker",
    "complete",
    "traces",
    "cluster-scaler",
    "cluster-gateway",
    "cluster-older",
    "cluster-kserve",
    "cluster-cold",
];

/// Those of them that install the gateway.
pub const WITH_GATEWAY: [&str; 5] = [
    "gateway",
    "endpoint-picker",
    "complete",
    "traces",
    "cluster-gateway",
];

/// Those whose pods any namespace may have (Pod Security "restricted").
pub const RESTRICTED: [&str; 9] = [
    "sample-pytorch",
    "sample-onnxruntime",
    "sample-llama-cpp",
    "sample-vllm",
    "sample-pull",
    "sample-model",
    "sample-scaler",
    "cluster-pods",
    "cluster-function",
];

/// Returns the path of the golden file `name`.
pub fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    folder.join(format!("{name}.yaml"))
}

/// Returns true if there is a `kubectl`.
pub fn is_there() -> bool {
    let mut command = Command::new("kubectl");
    command.args(["version", "--client"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Renders a folder of `deploy/` by `kubectl kustomize`.
///
/// # Errors
/// Output of kubectl.
pub fn render(folder: &str) -> anyhow::Result<String> {
    let mut command = Command::new("kubectl");
    let output = command
        .arg("kustomize")
        .arg(files::deploy().join(folder))
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{folder}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
