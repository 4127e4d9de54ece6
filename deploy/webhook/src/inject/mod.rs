//! Injection into a pod: the volume, a mount of it in each container, and the variables that programs look at. Where the
//! label asks for it, the same for the Python package. Pure functions.
//!
//! Guarantees:
//! - What the user has is never changed: operations only add, and none adds a name or a taken path. One volume is
//!   replaced: the empty directory that KServe adds for a model `tetris://NAME`.
//! - Applied twice is applied once: a pod that has everything gets no operation.
//! - Nothing here fails. What cannot be done is left out, and a warning gives the reason and what to do.
//!
//! - The Python package never costs a pod the store: where it cannot be added, the store is added alone.
//!
//! Caveats: variables that come from `envFrom` are not seen, because their names are not in the pod; Kubernetes lets
//! the ones that are added here win over them. Only of `PYTHONPATH` the earlier value is kept, by a reference to it; that
//! of the image is hidden.

use json_patch::Patch;
use serde_json::Value;

mod annotations;
mod container;
mod decision;
mod kserve;
mod lists;
mod module_path;
mod options;
mod paths;
mod placement;
mod template;
mod volume;
mod warnings;

pub use decision::Scope;
pub use options::{DEFAULT_DRIVER, DEFAULT_MOUNT_PATH, DEFAULT_PYTHON_PATH, Options, OptionsError};
pub use template::{Templates, inject_templates};
pub use warnings::{MAX_WARNINGS, WARNING_CHARS};

use annotations::Wishes;
use container::{Containers, Volumes};
use decision::Request;
use volume::Volume;
use warnings::Warnings;

/// The label of pods and of namespaces: `true`, `python` for the Python package too, or on a pod `false`.
pub const LABEL: &str = "tetris.dev/inject";
/// Annotation for the patch of Python programs: `true` (default), `files` or `false`.
pub const PATCH_ANNOTATION: &str = "tetris.dev/patch";
/// Annotation for models' prefixes that stay on GPUs: `true`, `false`, or a time to the first token such as `250ms` or
/// `1.5s`.
pub const GPU_TEMPLATE_ANNOTATION: &str = "tetris.dev/gpu-template";
/// Annotation of pods that name their model: a ModelProfile that a function of the namespace uses.
pub const PROFILE_ANNOTATION: &str = "tetris.dev/profile";
/// Scheduling gate that the scaler opens.
pub const GATE: &str = "tetris.dev/placement";
/// The containers that get the store, by name and separated by commas; all of them without it.
pub const CONTAINERS_ANNOTATION: &str = "tetris.dev/containers";
/// The store that the volume asks for; that of the namespace without it.
pub const STORE_ANNOTATION: &str = "tetris.dev/store";
/// The volume's name.
pub const VOLUME: &str = "tetris-store";
/// The volume's attribute that names a store.
pub const STORE_ATTRIBUTE: &str = "store";
/// The name of the volume with the Python package.
pub const PYTHON_VOLUME: &str = "tetris-python";
/// The volume's attribute that names its content, and the value for the Python package.
pub const CONTENT_ATTRIBUTE: &str = "content";
/// Value of [`CONTENT_ATTRIBUTE`] for the Python package.
pub const PYTHON_CONTENT: &str = "python";
/// Value of [`CONTENT_ATTRIBUTE`] for a model's files, and the attribute that names the model.
pub const MODEL_CONTENT: &str = "model";
/// Value of [`CONTENT_ATTRIBUTE`] for the store, which is that without the attribute as well.
pub const STORE_CONTENT: &str = "store";
/// Module path of Python interpreters.
pub const PYTHON_PATH_ENV: &str = "PYTHONPATH";
/// Names the store for programs.
pub const STORE_ENV: &str = "TETRIS_STORE";
/// Makes Python programs load through the store.
pub const PATCH_ENV: &str = "TETRIS_PATCH";
/// Makes Python programs have the GPU mirror keep the prefixes of their models.
pub const GPU_TEMPLATE_ENV: &str = "TETRIS_GPU_TEMPLATE";

/// Outcome for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InjectionOutcome {
    /// There is something to add.
    Injected,
    /// It has all of it already.
    Complete,
    /// Its labels do not ask for it.
    NotAsked,
    /// It asks, but cannot have it; a warning gives the reason.
    Refused,
}

impl InjectionOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [
        Self::Injected,
        Self::Complete,
        Self::NotAsked,
        Self::Refused,
    ];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Injected => "injected",
            Self::Complete => "complete",
            Self::NotAsked => "not-asked",
            Self::Refused => "refused",
        }
    }
}

/// Changes of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Injection {
    /// Operations; empty unless the outcome is [`InjectionOutcome::Injected`].
    pub patch: Patch,
    /// Warnings for its author, each of at most [`WARNING_CHARS`] characters.
    pub warnings: Vec<String>,
    /// Outcome for the pod.
    pub outcome: InjectionOutcome,
}

/// Returns the changes of `pod`, an object with `metadata` and `spec`, by the webhook for `scope`.
pub fn inject(pod: &Value, scope: Scope, options: &Options) -> Injection {
    let mut warnings = Warnings::default();
    let (patch, outcome) = if scope == Scope::Placement {
        placement::gate(pod, &mut warnings)
    } else {
        match decision::request(pod, scope, &mut warnings) {
            Some(request) => additions(pod, request, options, &mut warnings),
            None if warnings.is_empty() => (Patch::default(), InjectionOutcome::NotAsked),
            None => (Patch::default(), InjectionOutcome::Refused),
        }
    };
    Injection {
        patch,
        warnings: warnings.into_vec(),
        outcome,
    }
}

fn additions(
    pod: &Value,
    request: Request,
    options: &Options,
    warnings: &mut Warnings,
) -> (Patch, InjectionOutcome) {
    let refused = (Patch::default(), InjectionOutcome::Refused);
    let Some(spec) = pod.get("spec").filter(|spec| spec.is_object()) else {
        warnings.push("nothing injected: spec: expected an object");
        return refused;
    };
    if let Some(reason) = decision::unsupported(pod, spec) {
        warnings.push(reason);
        return refused;
    }
    let wishes = Wishes::read(pod, warnings);
    let Some(volume) = Volume::find(spec, &wishes, options, warnings) else {
        return refused;
    };
    let package = (request == Request::StoreAndPython)
        .then(|| Volume::find_package(spec, &volume, options, warnings))
        .flatten();
    let volumes = Volumes {
        store: &volume,
        package: package.as_ref(),
    };
    let containers = Containers::plan(spec, volumes, &wishes, options, warnings);
    if !containers.any_has_the_store() {
        return refused;
    }
    let package = package.filter(|_| containers.any_has_the_package());
    let mut patch = kserve::operations(spec, &wishes, options, warnings);
    patch.extend(Volume::operations(spec, [Some(volume), package]));
    patch.extend(containers.into_operations());
    let outcome = if patch.is_empty() {
        InjectionOutcome::Complete
    } else {
        InjectionOutcome::Injected
    };
    (Patch(patch), outcome)
}
