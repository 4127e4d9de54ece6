//! The pod's volumes of the store and of the Python package: those that it has, or new ones.

use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::annotations::Wishes;
use super::lists::{append, flag, items, text};
use super::options::Options;
use super::warnings::{Warnings, shown};
use super::{
    CONTENT_ATTRIBUTE, PYTHON_CONTENT, PYTHON_VOLUME, STORE_ANNOTATION, STORE_ATTRIBUTE,
    STORE_CONTENT, VOLUME,
};

/// A pod's volume of the store, or of the Python package.
#[derive(Debug)]
pub(super) struct Volume<'a> {
    /// The name that mounts refer to.
    pub(super) name: &'a str,
    /// All volumes of the driver with such content, this one too, by name.
    pub(super) of_driver: Vec<&'a str>,
    /// The volume to add; none if the pod has it.
    addition: Option<Value>,
}

impl<'a> Volume<'a> {
    /// The volume that the pod has, or a new one. None, with a warning, when there can be none.
    pub(super) fn find(
        spec: &'a Value,
        wishes: &Wishes<'a>,
        options: &Options,
        warnings: &mut Warnings,
    ) -> Option<Self> {
        let Some(volumes) = items(spec, "volumes") else {
            warnings.push("nothing injected: spec.volumes: expected a list");
            return None;
        };
        let ours: Vec<_> = volumes
            .iter()
            .filter(|volume| {
                driver(volume) == Some(options.driver()) && content(volume) == STORE_CONTENT
            })
            .filter_map(|volume| Some((text(volume, "name")?, volume)))
            .collect();
        if let Some((name, volume)) = preferred(&ours, wishes) {
            check(name, volume, wishes, warnings);
            return Some(Self {
                name,
                of_driver: ours.iter().map(|(name, _)| *name).collect(),
                addition: None,
            });
        }
        Self::added(volumes, wishes, options, warnings)
    }

    /// The volume of the Python package that the pod has, or a new one. None, with a warning, when there can be none.
    pub(super) fn find_package(
        spec: &'a Value,
        store: &Volume<'_>,
        options: &Options,
        warnings: &mut Warnings,
    ) -> Option<Self> {
        let volumes = items(spec, "volumes")?;
        let ours: Vec<_> = volumes
            .iter()
            .filter(|volume| {
                driver(volume) == Some(options.driver()) && content(volume) == PYTHON_CONTENT
            })
            .filter_map(|volume| text(volume, "name"))
            .filter(|name| !store.of_driver.contains(name))
            .collect();
        if let Some(name) = ours.first() {
            return Some(Self {
                name,
                of_driver: ours,
                addition: None,
            });
        }
        let is_taken = |volume: &Value| text(volume, "name") == Some(PYTHON_VOLUME);
        if volumes.iter().any(is_taken) {
            warnings.push(format!(
                "the Python package left out: the pod has another volume {PYTHON_VOLUME}; rename it"
            ));
            return None;
        }
        let attributes = json!({CONTENT_ATTRIBUTE: PYTHON_CONTENT});
        let csi =
            json!({"driver": options.driver(), "readOnly": true, "volumeAttributes": attributes});
        Some(Self {
            name: PYTHON_VOLUME,
            of_driver: vec![PYTHON_VOLUME],
            addition: Some(json!({"name": PYTHON_VOLUME, "csi": csi})),
        })
    }

    /// A new volume, unless its name is taken.
    fn added(
        volumes: &[Value],
        wishes: &Wishes<'_>,
        options: &Options,
        warnings: &mut Warnings,
    ) -> Option<Self> {
        let ours = |volume: &Value| text(volume, "name") == Some(VOLUME);
        if volumes.iter().any(ours) {
            let driver = options.driver();
            warnings.push(format!(
                "nothing injected: the pod has another volume {VOLUME}; rename it, or make it one of the driver {driver}"
            ));
            return None;
        }
        Some(Self {
            name: VOLUME,
            // A mount of it may be there already.
            of_driver: vec![VOLUME],
            addition: Some(new(wishes, options)),
        })
    }

    /// Operations that add the volumes.
    pub(super) fn operations(spec: &Value, volumes: [Option<Self>; 2]) -> Vec<PatchOperation> {
        let additions = volumes
            .into_iter()
            .flatten()
            .filter_map(|volume| volume.addition);
        append(spec, &["spec"], "volumes", additions.collect())
    }
}

fn driver(volume: &Value) -> Option<&str> {
    text(volume.get("csi")?, "driver")
}

/// The content that a volume of the driver asks for.
fn content(volume: &Value) -> &str {
    let attributes = volume
        .get("csi")
        .and_then(|csi| csi.get("volumeAttributes"));
    let content = attributes.and_then(|attributes| text(attributes, CONTENT_ATTRIBUTE));
    content.unwrap_or(STORE_CONTENT)
}

fn store(volume: &Value) -> Option<&str> {
    text(volume.get("csi")?.get("volumeAttributes")?, STORE_ATTRIBUTE)
}

/// Of several volumes: the one with the store asked for, the one with our name, or the first.
fn preferred<'a>(
    ours: &[(&'a str, &'a Value)],
    wishes: &Wishes<'_>,
) -> Option<(&'a str, &'a Value)> {
    let asked =
        |(_, volume): &&(&str, &Value)| wishes.store.is_some() && store(volume) == wishes.store;
    ours.iter()
        .find(asked)
        .or_else(|| ours.iter().find(|(name, _)| *name == VOLUME))
        .or_else(|| ours.first())
        .copied()
}

/// Warns of flaws of a volume that the pod has. It is the user's, and stays as it is.
fn check(name: &str, volume: &Value, wishes: &Wishes<'_>, warnings: &mut Warnings) {
    let name = shown(name);
    if !volume.get("csi").is_some_and(|csi| flag(csi, "readOnly")) {
        warnings.push(format!(
            "volume {name}: csi.readOnly: expected true, which the driver requires; the pod will not start without it"
        ));
    }
    if wishes
        .store
        .is_some_and(|asked| store(volume) != Some(asked))
    {
        warnings.push(format!(
            "annotation {STORE_ANNOTATION} has no effect: the pod has the volume {name}; set its volumeAttributes.store, or remove it"
        ));
    }
}

fn new(wishes: &Wishes<'_>, options: &Options) -> Value {
    let mut csi = json!({"driver": options.driver(), "readOnly": true});
    if let (Some(store), Some(fields)) = (wishes.store, csi.as_object_mut()) {
        fields.insert("volumeAttributes".into(), json!({STORE_ATTRIBUTE: store}));
    }
    json!({"name": VOLUME, "csi": csi})
}
