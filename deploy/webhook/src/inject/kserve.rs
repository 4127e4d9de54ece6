//! Models that a KServe service names as `storageUri: tetris://NAME`: the directory that KServe's storage initializer would
//! fill becomes the volume that shows the model.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, ReplaceOperation};
use serde_json::{Value, json};

use super::annotations::Wishes;
use super::lists::{items, text};
use super::options::Options;
use super::warnings::{Warnings, shown};
use super::{CONTENT_ATTRIBUTE, MODEL_CONTENT, STORE_ATTRIBUTE};

/// The init container that KServe adds, whose arguments are pairs of a source and a directory.
const INITIALIZER: &str = "storage-initializer";
/// Scheme of models of the namespace.
const SCHEME: &str = "tetris://";

/// The operations that give the pod its model, if it is one of KServe's and names one.
pub(super) fn operations(
    spec: &Value,
    wishes: &Wishes<'_>,
    options: &Options,
    warnings: &mut Warnings,
) -> Vec<PatchOperation> {
    let containers = items(spec, "initContainers").unwrap_or_default();
    let is_initializer = |container: &&Value| text(container, "name") == Some(INITIALIZER);
    let Some(initializer) = containers.iter().find(is_initializer) else {
        return Vec::new();
    };
    let args: Vec<_> = items(initializer, "args")
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let (name, path) = match args[..] {
        [source, path] => match source.strip_prefix(SCHEME) {
            Some(name) => (name, path),
            None => return Vec::new(),
        },
        _ if args.iter().any(|arg| arg.starts_with(SCHEME)) => {
            warnings.push(format!(
                "container {INITIALIZER}: a pod can have one source {SCHEME}, without others; name the others' models by \
                 volumes of the driver {}",
                options.driver()
            ));
            return Vec::new();
        }
        _ => return Vec::new(),
    };
    replacement(spec, initializer, name, path, wishes, options).unwrap_or_else(|problem| {
        warnings.push(format!(
            "container {INITIALIZER} without the model {}: {problem}",
            shown(name)
        ));
        Vec::new()
    })
}

/// The volume of the model in place of the empty directory at `path`.
fn replacement(
    spec: &Value,
    initializer: &Value,
    model: &str,
    path: &str,
    wishes: &Wishes<'_>,
    options: &Options,
) -> Result<Vec<PatchOperation>, &'static str> {
    let mounts = items(initializer, "volumeMounts").unwrap_or_default();
    let mount = mounts
        .iter()
        .find(|mount| text(mount, "mountPath") == Some(path));
    let volume = mount
        .and_then(|mount| text(mount, "name"))
        .ok_or("it has no volume at the path of its arguments")?;
    let volumes = items(spec, "volumes").unwrap_or_default();
    let mut indexed = volumes.iter().enumerate();
    let (index, found) = indexed
        .find(|(_, candidate)| text(candidate, "name") == Some(volume))
        .ok_or("the pod does not have its volume")?;
    if found.get("csi").is_some() {
        return Ok(Vec::new());
    }
    if found.get("emptyDir").is_none() {
        return Err("its volume is not the empty directory that KServe adds");
    }
    let mut attributes = json!({CONTENT_ATTRIBUTE: MODEL_CONTENT, MODEL_CONTENT: model});
    if let (Some(store), Some(fields)) = (wishes.store, attributes.as_object_mut()) {
        fields.insert(STORE_ATTRIBUTE.into(), store.into());
    }
    let csi = json!({"driver": options.driver(), "readOnly": true, "volumeAttributes": attributes});
    Ok(vec![PatchOperation::Replace(ReplaceOperation {
        path: PointerBuf::from_tokens(["spec", "volumes", &index.to_string()]),
        value: json!({"name": volume, "csi": csi}),
    })])
}
