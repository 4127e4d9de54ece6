//! Checked requests of the kubelet. Purely.
//!
//! For an inline volume the kubelet (`pkg/volume/csi/csi_mounter.go`) sends the pod's
//! `volumeAttributes` and overwrites its own keys in them. So a pod cannot forge
//! `csi.storage.k8s.io/pod.namespace` as long as the CSIDriver object sets `podInfoOnMount`. The
//! access mode is SINGLE_NODE_WRITER for either value of `readOnly`. There are no mount flags
//! unless the CSIDriver object sets `seLinuxMount`. The kubelet has made the directory above the
//! target, with its own `vol_data.json` in it, and leaves the target to the driver.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use tetris_wire::daemon::is_model_name;

use super::config::is_namespace;
use super::error::VolumeError;
use super::wire::{
    AccessType, NodePublishVolumeRequest, NodeUnpublishVolumeRequest, VolumeCapability,
};

/// The kubelet's own attributes.
const KUBELET: &str = "csi.storage.k8s.io/";
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
const NAMESPACE: &str = "csi.storage.k8s.io/pod.namespace";
const POD: &str = "volume_context.csi.storage.k8s.io/pod.name";
const SERVICE_ACCOUNT: &str = "csi.storage.k8s.io/serviceAccount.name";
const POD_UID: &str = "volume_context.csi.storage.k8s.io/pod.uid";
/// The attributes of our own.
const STORE: &str = "store";
const CONTENT: &str = "content";
const MODEL: &str = "model";
/// The kubelet's identifiers have 68 bytes; the specification allows 128.
const ID_BYTES: usize = 128;
/// PATH_MAX with its final zero byte.
const PATH_BYTES: usize = 4095;
/// Access modes are numbered from 1; 0 is unknown.
const MODES: std::ops::RangeInclusive<i32> = 1..=7;

/// Content of a volume, its attribute `content`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum VolumeContent {
    /// A store.
    #[default]
    Store,
    /// The Python package.
    Python,
    /// The files of the model of this name.
    Model(String),
}

/// A pod's wish for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// The volume, for the log.
    pub volume_id: String,
    /// Path of the target, below the kubelet's directory.
    pub target: PathBuf,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's unique identifier.
    pub pod_uid: String,
    /// The pod's service account, if the kubelet names it.
    pub service_account: Option<String>,
    /// The content of the volume.
    pub content: VolumeContent,
    /// The store that the pod prefers.
    pub store: Option<String>,
}

impl Publish {
    /// Checks a request to a driver of this kubelet.
    pub fn new(request: NodePublishVolumeRequest, kubelet_dir: &Path) -> Result<Self, VolumeError> {
        check_id(&request.volume_id)?;
        let target = below(kubelet_dir, &request.target_path)?;
        let capability = request.volume_capability.ok_or(VolumeError::Missing {
            field: "volume_capability",
        })?;
        check_capability(&capability)?;
        let context = request.volume_context;
        check_attributes(&context)?;
        if context.get(EPHEMERAL).is_none_or(|value| value != "true") {
            let found = context.get(EPHEMERAL).map_or("none", String::as_str);
            let expected = "`true`: this driver has inline volumes alone, and its CSIDriver object sets `podInfoOnMount`";
            return Err(VolumeError::invalid(EPHEMERAL, expected, found));
        }
        let namespace = context.get(NAMESPACE).ok_or(VolumeError::Missing {
            field: "volume_context.csi.storage.k8s.io/pod.namespace",
        })?;
        if !is_namespace(namespace) {
            let expected = "the name of a namespace";
            return Err(VolumeError::invalid(NAMESPACE, expected, namespace));
        }
        if !request.readonly {
            return Err(VolumeError::Writable);
        }
        let about = |field: &'static str| {
            let known = field.strip_prefix("volume_context.");
            let known = known.and_then(|key| context.get(key));
            let known = known.filter(|value| !value.is_empty());
            known.cloned().ok_or(VolumeError::Missing { field })
        };
        Ok(Self {
            volume_id: request.volume_id,
            target,
            namespace: namespace.clone(),
            pod: about(POD)?,
            pod_uid: about(POD_UID)?,
            service_account: context
                .get(SERVICE_ACCOUNT)
                .filter(|name| is_service_account(name))
                .cloned(),
            content: content(&context)?,
            store: context.get(STORE).cloned(),
        })
    }
}

/// Path of the volume to remove, below the kubelet's directory.
pub fn unpublish(
    request: &NodeUnpublishVolumeRequest,
    kubelet_dir: &Path,
) -> Result<PathBuf, VolumeError> {
    check_id(&request.volume_id)?;
    below(kubelet_dir, &request.target_path)
}

/// A DNS subdomain, as Kubernetes has it.
fn is_service_account(name: &str) -> bool {
    name.len() <= 253
        && name
            .split('.')
            .all(|part| !part.is_empty() && is_label(part))
}

fn is_label(part: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    part.chars().all(letter)
}

fn content(context: &HashMap<String, String>) -> Result<VolumeContent, VolumeError> {
    let content = context.get(CONTENT).map(String::as_str);
    if let (Some(model), false) = (context.get(MODEL), content == Some("model")) {
        let expected = "none without `content: model`";
        return Err(VolumeError::invalid(MODEL, expected, shown(model)));
    }
    match content {
        None | Some("store") => Ok(VolumeContent::Store),
        Some("model") => match context.get(MODEL) {
            None => Err(VolumeError::Missing {
                field: "volume_context.model",
            }),
            Some(name) if is_model_name(name) => Ok(VolumeContent::Model(name.clone())),
            Some(name) => {
                let expected = "the name of a Model";
                Err(VolumeError::invalid(MODEL, expected, shown(name)))
            }
        },
        Some("python") if context.contains_key(STORE) => {
            let expected = "none beside `content: python`, which is the same for all stores";
            Err(VolumeError::invalid(STORE, expected, &context[STORE]))
        }
        Some("python") => Ok(VolumeContent::Python),
        Some(found) => {
            let expected = "`store`, `python` or `model`";
            Err(VolumeError::invalid(CONTENT, expected, shown(found)))
        }
    }
}

/// A pod's value, for an error.
fn shown(value: &str) -> String {
    let start: String = value.chars().take(64).collect();
    format!("{start:?}")
}

fn check_id(id: &str) -> Result<(), VolumeError> {
    if id.is_empty() {
        return Err(VolumeError::Missing { field: "volume_id" });
    }
    if id.len() > ID_BYTES {
        let (expected, found) = (format!("at most {ID_BYTES} bytes"), id.len().to_string());
        return Err(VolumeError::invalid("volume_id", expected, found));
    }
    Ok(())
}

/// The target relative to the kubelet's directory. Nothing in it leads upwards.
fn below(kubelet_dir: &Path, target: &str) -> Result<PathBuf, VolumeError> {
    if target.is_empty() {
        let field = "target_path";
        return Err(VolumeError::Missing { field });
    }
    let path = Path::new(target);
    let straight = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let relative = path
        .strip_prefix(kubelet_dir)
        .ok()
        .filter(|rest| rest.file_name().is_some());
    match relative {
        Some(rest) if straight && target.len() <= PATH_BYTES && !target.contains('\0') => {
            Ok(rest.to_owned())
        }
        _ => {
            let expected = format!(
                "an absolute path below `{}` without `..`",
                kubelet_dir.display()
            );
            let found: String = target.chars().take(256).collect();
            Err(VolumeError::invalid(
                "target_path",
                expected,
                format!("{found:?}"),
            ))
        }
    }
}

fn check_capability(capability: &VolumeCapability) -> Result<(), VolumeError> {
    let mount = match &capability.access_type {
        Some(AccessType::Mount(mount)) => mount,
        Some(AccessType::Block(_)) => {
            let field = "volume_capability.block";
            return Err(VolumeError::invalid(
                field,
                "a volume of type mount",
                "block",
            ));
        }
        None => {
            let field = "volume_capability.access_type";
            return Err(VolumeError::Missing { field });
        }
    };
    if !matches!(mount.fs_type.as_str(), "" | "tmpfs") {
        let (field, found) = ("volume_capability.mount.fs_type", &mount.fs_type);
        return Err(VolumeError::invalid(field, "none, or tmpfs", found));
    }
    if let Some(flag) = mount.mount_flags.iter().find(|flag| *flag != "ro") {
        let field = "volume_capability.mount.mount_flags";
        return Err(VolumeError::invalid(field, "none, or ro", flag));
    }
    let mode = capability.access_mode.map(|mode| mode.mode);
    match mode {
        None | Some(0) => Err(VolumeError::Missing {
            field: "volume_capability.access_mode",
        }),
        Some(mode) if MODES.contains(&mode) => Ok(()),
        Some(mode) => {
            let field = "volume_capability.access_mode";
            Err(VolumeError::invalid(field, "1 to 7", mode.to_string()))
        }
    }
}

fn check_attributes(context: &HashMap<String, String>) -> Result<(), VolumeError> {
    let mut unknown: Vec<_> = context
        .keys()
        .filter(|key| ![STORE, CONTENT, MODEL].contains(&key.as_str()) && !key.starts_with(KUBELET))
        .map(|key| format!("`{key}`"))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort();
    let found = unknown.join(", ");
    Err(VolumeError::UnknownAttributes { found })
}
