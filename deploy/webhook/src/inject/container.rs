//! Mounts and variables of a pod's containers. Sidecars are init containers; ephemeral containers come later, by another
//! request, and get nothing.

use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::annotations::Wishes;
use super::lists::{append, flag, items, text};
use super::module_path;
use super::options::Options;
use super::paths::{Relation, relation};
use super::volume::Volume;
use super::warnings::{Warnings, shown};
use super::{CONTAINERS_ANNOTATION, GPU_TEMPLATE_ENV, PATCH_ENV, STORE_ENV};

/// The lists of containers that can have the store.
const LISTS: [&str; 2] = ["initContainers", "containers"];
/// Sources of volumes in which no directory can be made for a mount below.
const READ_ONLY_SOURCES: [&str; 5] = ["configMap", "downwardAPI", "image", "projected", "secret"];

/// The reason that a container gets nothing.
#[derive(Debug, thiserror::Error)]
enum Refused<'p> {
    #[error("{0}: expected a list")]
    NotAList(&'static str),
    #[error("it has another mount at {path}; move it away from {ours}")]
    Taken { path: String, ours: &'p str },
    #[error("its read-only mount at {path} has no room for {ours} below it; move it")]
    ReadOnly { path: String, ours: &'p str },
}

/// Operations on containers.
#[derive(Debug, Default)]
pub(super) struct Containers {
    operations: Vec<PatchOperation>,
    /// Containers that have the mount, or are given it.
    with_store: usize,
    /// Containers that have the mount of the Python package, or are given it.
    with_package: usize,
}

/// Volumes of a pod mounted in its containers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Volumes<'a> {
    /// The store's.
    pub(super) store: &'a Volume<'a>,
    /// The Python package's, where it is asked for and possible.
    pub(super) package: Option<&'a Volume<'a>>,
}

/// Parts that containers get, and their pod.
struct Plan<'a> {
    spec: &'a Value,
    volumes: Volumes<'a>,
    patch: Option<&'static str>,
    gpu_template: Option<&'a str>,
    options: &'a Options,
}

/// Operations on one container.
struct Additions {
    operations: Vec<PatchOperation>,
    has_package: bool,
}

impl Containers {
    pub(super) fn plan(
        spec: &Value,
        volumes: Volumes<'_>,
        wishes: &Wishes<'_>,
        options: &Options,
        warnings: &mut Warnings,
    ) -> Self {
        let plan = Plan {
            spec,
            volumes,
            patch: wishes.patch,
            gpu_template: wishes.gpu_template,
            options,
        };
        let mut all = Self::default();
        let mut seen = Vec::new();
        for list in LISTS {
            let containers = items(spec, list).unwrap_or_default();
            for (index, container) in containers.iter().enumerate() {
                let name = text(container, "name").unwrap_or_default();
                seen.push(name);
                if container.is_object() && wishes.chose(name) {
                    let planned = plan.container(container, [list, &index.to_string()], warnings);
                    all.add(planned, name, warnings);
                }
            }
        }
        warn_of_unknown(wishes, &seen, warnings);
        all
    }

    fn add(
        &mut self,
        planned: Result<Additions, Refused<'_>>,
        name: &str,
        warnings: &mut Warnings,
    ) {
        match planned {
            Ok(additions) => {
                self.operations.extend(additions.operations);
                self.with_store += 1;
                self.with_package += usize::from(additions.has_package);
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

    pub(super) fn any_has_the_package(&self) -> bool {
        self.with_package > 0
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
    fn container<'p>(
        &'p self,
        container: &'p Value,
        [list, index]: [&str; 2],
        warnings: &mut Warnings,
    ) -> Result<Additions, Refused<'p>> {
        let mounts = items(container, "volumeMounts").ok_or(Refused::NotAList("volumeMounts"))?;
        let env = items(container, "env").ok_or(Refused::NotAList("env"))?;
        let mut additions = Vec::new();
        let path = self.options.mount_path();
        let store = self.place(container, mounts, self.volumes.store, path, &mut additions)?;
        let path = self.options.python_path();
        let package = self.volumes.package.and_then(|package| {
            let placed = self.place(container, mounts, package, path, &mut additions);
            placed
                .map_err(|reason| {
                    let name = shown(text(container, "name").unwrap_or_default());
                    warnings.push(format!(
                        "container {name} without the Python package: {reason}"
                    ));
                })
                .ok()
        });
        let mut variables = self.variables(env, store);
        variables.extend(package.and_then(|folder| module_path::variable(container, env, folder)));
        let at = ["spec", list, index];
        let mut operations = append(container, &at, "volumeMounts", additions);
        operations.extend(append(container, &at, "env", variables));
        Ok(Additions {
            operations,
            has_package: package.is_some(),
        })
    }

    /// The path at which the container has a volume, which is added to its mounts if need be.
    fn place<'p>(
        &self,
        container: &Value,
        mounts: &'p [Value],
        volume: &Volume<'_>,
        path: &'p str,
        additions: &mut Vec<Value>,
    ) -> Result<&'p str, Refused<'p>> {
        if let Some(path) = mounted(mounts, volume) {
            return Ok(path);
        }
        self.check_free(container, mounts, path)?;
        additions.push(json!({"name": volume.name, "mountPath": path, "readOnly": true}));
        Ok(path)
    }

    /// Checks that a volume can be mounted at `ours`: the API server refuses a taken path, and the container runtime makes a
    /// directory for each mount in what is mounted above it.
    fn check_free<'p>(
        &self,
        container: &Value,
        mounts: &[Value],
        ours: &'p str,
    ) -> Result<(), Refused<'p>> {
        let devices = items(container, "volumeDevices").unwrap_or_default();
        let devices = devices
            .iter()
            .filter_map(|device| text(device, "devicePath"));
        let paths = mounts.iter().filter_map(|mount| text(mount, "mountPath"));
        for path in paths.chain(devices) {
            if matches!(relation(path, ours), Relation::Same | Relation::Below) {
                let path = shown(path);
                return Err(Refused::Taken { path, ours });
            }
        }
        let in_the_way = mounts.iter().find(|mount| {
            let above = |path| relation(path, ours) == Relation::Above;
            text(mount, "mountPath").is_some_and(above) && self.is_read_only(mount)
        });
        match in_the_way.and_then(|mount| text(mount, "mountPath")) {
            Some(path) => Err(Refused::ReadOnly {
                path: shown(path),
                ours,
            }),
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
        let wanted = [
            (STORE_ENV, Some(path)),
            (PATCH_ENV, self.patch),
            (GPU_TEMPLATE_ENV, self.gpu_template),
        ];
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

/// Returns the path at which the container mounts the whole volume already.
fn mounted<'m>(mounts: &'m [Value], volume: &Volume<'_>) -> Option<&'m str> {
    let part = |mount: &Value| {
        let set = |field| text(mount, field).is_some_and(|path| !path.is_empty());
        set("subPath") || set("subPathExpr")
    };
    let ours = |mount: &&Value| {
        let of_driver = |name| volume.of_driver.contains(&name);
        text(mount, "name").is_some_and(of_driver) && !part(mount)
    };
    text(mounts.iter().find(ours)?, "mountPath")
}
