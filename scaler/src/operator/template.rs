//! Pod template of a configuration.

use serde_json::{Value, json};
use tetris_store_layout::Digest;

use super::json_paths::{list, object};
use super::prepare::Prepared;
use crate::labels;
use crate::nodes::{bytes, millis};
use crate::placement::{PlacementMode, assigned_node};
use crate::resources::{
    CheckedGpu, CheckedTemplate, FieldProblem, MeasuredConfiguration, MeasuredGpu,
};

/// Mount path of the store in containers.
const MOUNT_PATH: &str = "/run/tetris/store";
/// CSI driver of the store.
const DRIVER: &str = "csi.tetris.dev";
/// Name of the store's volume.
const VOLUME: &str = "tetris-store";
/// Name of the volume with a model's files, and the folder of its mount path.
const MODEL_VOLUME: &str = "tetris-model";
const MODELS_PATH: &str = "/models";

/// A pod template without preferred nodes, and its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The pod template.
    pub pods: Value,
    /// Hash of the template.
    pub hash: String,
}

/// Returns the function's template with the needs of the configuration `index`: labels,
/// environment, requests, the store's volume, and the scheduling gate. Adds a memory limit if there
/// is none. With a GPU, adds the device and its runtime class.
///
/// # Errors
///
/// Fails if a limit is below the needs of the configuration.
pub fn template(
    prepared: &Prepared,
    index: usize,
    mode: PlacementMode,
) -> Result<Template, FieldProblem> {
    let function = &prepared.function;
    let measured = prepared.measured.get(index);
    let profiled = prepared.model.profile.configurations().get(index);
    let (measured, profiled) = measured
        .zip(profiled)
        .ok_or_else(|| FieldProblem::new("spec.profile", "no such configuration"))?;
    let mut pods = Value::Object(prepared.template.raw.clone());
    let marks = [
        (labels::FUNCTION, function.name.clone()),
        (labels::CONFIGURATION, measured.name()),
    ];
    for (name, value) in marks {
        object(&mut pods, &["metadata", "labels"]).insert(name.to_owned(), value.into());
    }
    let path = format!(
        "spec.template.spec.containers[{}]",
        prepared.template.container
    );
    if let Some(container) = container(&mut pods, prepared.template.container) {
        set_environment(container, measured, profiled.batch_wait_us(function.slo));
        if let Some(gpu) = measured.gpu {
            set_gpu(container, prepared, &gpu);
        }
        set_resources(container, measured, &path)?;
        mount(container);
    }
    if measured.gpu.is_some() {
        share_gpus(&mut pods, function.gpu.as_ref());
    }
    let store = (function.store != function.namespace).then_some(function.store.as_str());
    add_volume(&mut pods, store);
    if let Some(model) = &function.model {
        add_model(&mut pods, prepared.template.container, model);
    }
    if mode == PlacementMode::Gates {
        add_gate(&mut pods, &prepared.template);
    }
    let hash = Digest::of(pods.to_string().as_bytes()).to_string();
    let hash = hash.chars().take(16).collect();
    Ok(Template { pods, hash })
}

fn container(pods: &mut Value, index: usize) -> Option<&mut Value> {
    pods.pointer_mut(&format!("/spec/containers/{index}"))
}

fn set_environment(container: &mut Value, measured: &MeasuredConfiguration, batch_wait_us: u64) {
    let variables = list(container, &[], "env");
    let ours = [
        ("TETRIS_BATCH", u64::from(measured.batch)),
        ("TETRIS_CONCURRENCY", u64::from(measured.concurrency)),
        ("TETRIS_CPU_MILLIS", measured.cpu_millis),
    ];
    for (name, value) in ours {
        variables.push(json!({"name": name, "value": value.to_string()}));
    }
    if measured.batch > 1 {
        let value = thousandths(batch_wait_us);
        variables.push(json!({"name": "TETRIS_BATCH_WAIT_MILLIS", "value": value}));
    }
}

/// Formats a number of thousandths, e.g. microseconds in milliseconds.
fn thousandths(number: u64) -> String {
    let (whole, part) = (number / 1_000, number % 1_000);
    let text = format!("{whole}.{part:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Gives the container the GPU that the pod's annotation names, without a claim: the kubelet reads the
/// annotation when the container starts, after the operator has chosen the GPU.
fn set_gpu(container: &mut Value, prepared: &Prepared, gpu: &MeasuredGpu) {
    let least = prepared
        .function
        .gpu
        .as_ref()
        .map_or(0, |gpu| gpu.own_bytes);
    let own_bytes = gpu.own_bytes.max(least).to_string();
    let variables = list(container, &[], "env");
    let path = format!("metadata.annotations['{}']", labels::GPU);
    variables.push(json!({
        "name": "NVIDIA_VISIBLE_DEVICES",
        "valueFrom": {"fieldRef": {"fieldPath": path}},
    }));
    variables.push(json!({"name": "TETRIS_GPU_OWN_BYTES", "value": own_bytes}));
    let name = "NVIDIA_DRIVER_CAPABILITIES";
    let is_set = |one: &Value| one.get("name").and_then(Value::as_str) == Some(name);
    if !variables.iter().any(is_set) {
        variables.push(json!({"name": name, "value": "compute,utility"}));
    }
}

/// Sets the runtime class that gives containers their devices, the toleration of nodes for GPUs, and the
/// annotation with all of a node's GPUs, until the operator chooses one.
fn share_gpus(pods: &mut Value, gpu: Option<&CheckedGpu>) {
    let annotations = object(pods, &["metadata", "annotations"]);
    annotations.insert(labels::GPU.to_owned(), labels::EVERY_GPU.into());
    let tolerations = list(pods, &["spec"], "tolerations");
    tolerations.push(json!({"key": labels::GPU_TAINT, "operator": "Exists"}));
    if let Some(gpu) = gpu {
        let class = object(pods, &["spec"]).entry("runtimeClassName");
        class.or_insert_with(|| gpu.runtime_class.clone().into());
    }
}

fn set_resources(
    container: &mut Value,
    measured: &MeasuredConfiguration,
    path: &str,
) -> Result<(), FieldProblem> {
    let memory = measured.own_bytes.to_string();
    let cpu = format!("{}m", measured.cpu_millis);
    let limits = object(container, &["resources", "limits"]);
    let limit = limits
        .entry("memory")
        .or_insert_with(|| memory.clone().into());
    check_limit(
        limit,
        measured.own_bytes,
        bytes,
        &format!("{path}.resources.limits.memory"),
    )?;
    if let Some(limit) = limits.get("cpu") {
        let field = format!("{path}.resources.limits.cpu");
        check_limit(limit, measured.cpu_millis, millis, &field)?;
    }
    let requests = object(container, &["resources", "requests"]);
    requests.insert("cpu".to_owned(), cpu.into());
    requests.insert("memory".to_owned(), memory.into());
    Ok(())
}

/// Checks a limit. The API server would refuse each pod with a limit below its request.
fn check_limit(
    limit: &Value,
    least: u64,
    read: fn(&str) -> Option<u64>,
    field: &str,
) -> Result<(), FieldProblem> {
    let text = limit
        .as_str()
        .map_or_else(|| limit.to_string(), str::to_owned);
    match read(&text) {
        Some(found) if found >= least => Ok(()),
        _ => {
            let problem = format!(
                "found {text:?}, expected at least {least}, the need of the configuration; raise it, or leave it out"
            );
            Err(FieldProblem::new(field, problem))
        }
    }
}

pub(super) fn mount(container: &mut Value) {
    let mounts = list(container, &[], "volumeMounts");
    let is_there =
        |mount: &Value| mount.get("mountPath").and_then(Value::as_str) == Some(MOUNT_PATH);
    if !mounts.iter().any(is_there) {
        mounts.push(json!({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": true}));
    }
}

pub(super) fn add_volume(pods: &mut Value, store: Option<&str>) {
    let volumes = list(pods, &["spec"], "volumes");
    let is_there = |volume: &Value| volume.get("name").and_then(Value::as_str) == Some(VOLUME);
    if volumes
        .iter()
        .any(|volume| is_there(volume) || is_store(volume))
    {
        rename_mount(pods);
        return;
    }
    let mut csi = json!({"driver": DRIVER, "readOnly": true});
    if let Some(store) = store {
        object(&mut csi, &["volumeAttributes"]).insert("store".to_owned(), store.into());
    }
    volumes.push(json!({"name": VOLUME, "csi": csi}));
}

/// Returns true for a volume of a store, and no other content.
fn is_store(volume: &Value) -> bool {
    let text = |path| volume.pointer(path).and_then(Value::as_str);
    let content = text("/csi/volumeAttributes/content");
    text("/csi/driver") == Some(DRIVER) && content.is_none_or(|content| content == "store")
}

/// Adds the files of a Model, below `/models`.
pub(super) fn add_model(pods: &mut Value, index: usize, model: &str) {
    list(pods, &["spec"], "volumes").push(json!({"name": MODEL_VOLUME, "csi": {
        "driver": DRIVER,
        "readOnly": true,
        "volumeAttributes": {"content": "model", "model": model},
    }}));
    if let Some(container) = container(pods, index) {
        let path = format!("{MODELS_PATH}/{model}");
        list(container, &[], "volumeMounts")
            .push(json!({"name": MODEL_VOLUME, "mountPath": path, "readOnly": true}));
    }
}

/// Renames the added mount to the template's own volume.
fn rename_mount(pods: &mut Value) {
    let volumes = list(pods, &["spec"], "volumes");
    let named = volumes
        .iter()
        .any(|volume| volume.get("name").and_then(Value::as_str) == Some(VOLUME));
    let name = volumes
        .iter()
        .find(|volume| is_store(volume))
        .and_then(|volume| volume.get("name").cloned());
    let (Some(name), false) = (name, named) else {
        return;
    };
    for container in list(pods, &["spec"], "containers") {
        let mounts = container.get_mut("volumeMounts");
        for mount in mounts.and_then(Value::as_array_mut).into_iter().flatten() {
            if mount.get("name").and_then(Value::as_str) == Some(VOLUME)
                && let Some(mount) = mount.as_object_mut()
            {
                mount.insert("name".to_owned(), name.clone());
            }
        }
    }
}

/// Adds the scheduling gate, unless the template names a node itself.
fn add_gate(pods: &mut Value, template: &CheckedTemplate) {
    if template
        .pods
        .spec
        .as_ref()
        .and_then(assigned_node)
        .is_some()
    {
        return;
    }
    let gates = list(pods, &["spec"], "schedulingGates");
    let is_ours = |gate: &Value| gate.get("name").and_then(Value::as_str) == Some(labels::GATE);
    if !gates.iter().any(is_ours) {
        gates.push(json!({"name": labels::GATE}));
    }
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn microseconds_are_milliseconds_without_needless_digits() {
        let cases = [(0, "0"), (90_000, "90"), (112_500, "112.5"), (7, "0.007")];
        for (us, expected) in cases {
            assert_eq!(thousandths(us), expected);
        }
    }
}
