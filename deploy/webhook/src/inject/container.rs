//! Mounts and variables of a pod's containers. Sidecars are init containers; ephemeral containers come later, by another
//! request, and get nothing.

use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::annotations::Wishes;
use super::lists::{append, flag, items, text};
use super::options::Options;
use super::paths::{Relation, relation};
use super::volume::Volume;
use super::warnings::{Warnings, shown};
use super::{CONTAINERS_ANNOTATION, PATCH_ENV, STORE_ENV};

/// The lists of containers that can have the store.
const LISTS: [&str; 2] = ["initContainers", "containers"];
/// Sources of volumes in which no directory can be made for a mount below.
const READ_ONLY_SOURCES: [&str; 5] = ["configMap", "downwardAPI", "image", "projected", "secret"];

/// Operations on containers.
#[derive(Debug, Default)]
pub(super) struct Containers {
    operations: Vec<PatchOperation>,
    /// Containers that have the mount, or are given it.
    with_store: usize,
}

/// Parts that containers get, and their pod.
struct Plan<'a> {
    spec: &'a Value,
    volume: &'a Volume<'a>,
    patch: Option<&'static str>,
    mount_path: &'a str,
}

impl Containers {
    pub(super) fn plan(
        spec: &Value,
        volume: &Volume<'_>,
        wishes: &Wishes<'_>,
        options: &Options,
        warnings: &mut Warnings,
    ) -> Self {
        let plan = Plan {
            spec,
            volume,
            patch: wishes.patch,
            mount_path: options.mount_path(),
        };
        let mut all = Self::default();
        let mut seen = Vec::new();
        for list in LISTS {
            let containers = items(spec, list).unwrap_or_default();
            for (index, container) in containers.iter().enumerate() {
                let name = text(container, "name").unwrap_or_default();
                seen.push(name);
                if container.is_object() && wishes.chose(name) {
                    all.add(plan.container(container, list, index), name, warnings);
                }
            }
        }
        warn_of_unknown(wishes, &seen, warnings);
        all
    }

    fn add(
        &mut self,
        planned: Result<Vec<PatchOperation>, String>,
        name: &str,
        warnings: &mut Warnings,
    ) {
        match planned {
            Ok(operations) => {
                self.operations.extend(operations);
                self.with_store += 1;
            }
            Err(reason) => {
                warnings.push(format!(
                    "container {} without the store: {reason}",
                    shown(name)
                ));
            }
        }
    }

    pub(super) fn any_has_the_store(&self) -> bool {
        self.with_store > 0
    }

    pub(super) fn into_operations(self) -> Vec<PatchOperation> {
        self.operations
    }
}

fn warn_of_unknown(wishes: &Wishes<'_>, seen: &[&str], warnings: &mut Warnings) {
    let Some(chosen) = &wishes.containers else {
        return;
    };
    if chosen.is_empty() {
        warnings.push(format!(
            "nothing injected: annotation {CONTAINERS_ANNOTATION}: expected names of containers, found none; remove it for all"
        ));
    }
    for name in chosen.iter().filter(|name| !seen.contains(name)) {
        let name = shown(name);
        warnings.push(format!(
            "annotation {CONTAINERS_ANNOTATION}: the pod has no container {name} yet; check the name"
        ));
    }
}

impl Plan<'_> {
    /// Returns the operations on one container, or the reason it gets nothing.
    fn container(
        &self,
        container: &Value,
        list: &str,
        index: usize,
    ) -> Result<Vec<PatchOperation>, String> {
        let not_a_list = |field: &str| format!("{field}: expected a list");
        let mounts = items(container, "volumeMounts").ok_or_else(|| not_a_list("volumeMounts"))?;
        let env = items(container, "env").ok_or_else(|| not_a_list("env"))?;
        let mut additions = Vec::new();
        let path = if let Some(path) = self.mounted(mounts) {
            path
        } else {
            self.check_free(container, mounts)?;
            let name = self.volume.name;
            let mount = json!({"name": name, "mountPath": self.mount_path, "readOnly": true});
            additions.push(mount);
            self.mount_path
        };
        let index = index.to_string();
        let at = ["spec", list, &index];
        let mut operations = append(container, &at, "volumeMounts", additions);
        operations.extend(append(container, &at, "env", self.variables(env, path)));
        Ok(operations)
    }

    /// Returns the path at which the container mounts the whole store already.
    fn mounted<'m>(&self, mounts: &'m [Value]) -> Option<&'m str> {
        let part = |mount: &Value| {
            let set = |field| text(mount, field).is_some_and(|path| !path.is_empty());
            set("subPath") || set("subPathExpr")
        };
        let ours = |mount: &&Value| {
            let of_driver = |name| self.volume.of_driver.contains(&name);
            text(mount, "name").is_some_and(of_driver) && !part(mount)
        };
        text(mounts.iter().find(ours)?, "mountPath")
    }

    /// Checks that the store can be mounted: the API server refuses a path that is taken, and the container runtime makes a
    /// directory for each mount in what is mounted above it.
    fn check_free(&self, container: &Value, mounts: &[Value]) -> Result<(), String> {
        let ours = self.mount_path;
        let devices = items(container, "volumeDevices").unwrap_or_default();
        let devices = devices
            .iter()
            .filter_map(|device| text(device, "devicePath"));
        let paths = mounts.iter().filter_map(|mount| text(mount, "mountPath"));
        for path in paths.chain(devices) {
            if matches!(relation(path, ours), Relation::Same | Relation::Below) {
                let path = shown(path);
                return Err(format!(
                    "it has another mount at {path}; move it away from {ours}"
                ));
            }
        }
        let in_the_way = mounts.iter().find(|mount| {
            let above = |path| relation(path, ours) == Relation::Above;
            text(mount, "mountPath").is_some_and(above) && self.is_read_only(mount)
        });
        match in_the_way.and_then(|mount| text(mount, "mountPath")) {
            Some(path) => Err(format!(
                "its read-only mount at {} has no room for {ours} below it; move it",
                shown(path)
            )),
            None => Ok(()),
        }
    }

    fn is_read_only(&self, mount: &Value) -> bool {
        let volumes = items(self.spec, "volumes").unwrap_or_default();
        let volume = volumes.iter().find(|volume| {
            let name = text(volume, "name");
            name.is_some() && name == text(mount, "name")
        });
        let source = |volume: &Value| {
            READ_ONLY_SOURCES
                .iter()
                .any(|kind| volume.get(kind).is_some())
        };
        flag(mount, "readOnly") || volume.is_some_and(source)
    }

    /// The variables that the container lacks.
    fn variables(&self, env: &[Value], path: &str) -> Vec<Value> {
        let wanted = [(STORE_ENV, Some(path)), (PATCH_ENV, self.patch)];
        wanted
            .into_iter()
            .filter(|(name, _)| {
                !env.iter()
                    .any(|variable| text(variable, "name") == Some(name))
            })
            .filter_map(|(name, value)| Some(json!({"name": name, "value": value?})))
            .collect()
    }
}
