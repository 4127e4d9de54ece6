//! Validated form of an [`InferenceFunction`].

use std::sync::Arc;

use kube::ResourceExt as _;
use tetris_scaler_core::{GpuType, MAX_ALPHA, MAX_MEMORY_BYTES, ScaleInPolicy, Slo};

use super::callers::AllowedCallers;
use super::engine::{CheckedProfiling, EngineSpec};
use super::function::{InferenceFunction, Scaling};
use super::load::LoadSource;
use super::percentile::Percentile;
use super::problem::FieldProblem;
use super::rollout::RolloutSpec;
use super::served_paths::ServedPaths;
use super::template::CheckedTemplate;

/// Maximum number of instances of one function, as in the core.
const MAX_INSTANCES: u64 = tetris_scaler_core::MAX_INSTANCES as u64;
/// Maximum length of a label value, in bytes.
const MAX_LABEL: usize = 63;
/// Maximum length of a Model's name, in bytes.
const MAX_MODEL: usize = 52;

/// An [`InferenceFunction`] with validated fields.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedFunction {
    /// Namespace of the function; empty if a file names none.
    pub namespace: String,
    /// Name of the function.
    pub name: String,
    /// Name of its profile; its own name if the operator measures it.
    pub profile: String,
    /// Measurement by the operator; `None` for a function that names its profile.
    pub profiling: Option<CheckedProfiling>,
    /// Latency objective.
    pub slo: Slo,
    /// Percentile of the latency that must meet the objective.
    pub percentile: Percentile,
    /// Source of its pods.
    pub pods: PodSource,
    /// Source of the load.
    pub load: LoadSource,
    /// Minimum number of instances.
    pub min_instances: u32,
    /// Maximum number of instances.
    pub max_instances: u32,
    /// GPU of an instance; `None` without one.
    pub gpu: Option<CheckedGpu>,
    /// Names of the allowed configurations; all are allowed if empty.
    pub configurations: Vec<String>,
    /// Owner of the replica counts.
    pub scaling: Scaling,
    /// Limits on releases of instances.
    pub scale_in: ScaleInPolicy,
    /// Time for which a load must stay low before a release, in milliseconds.
    pub window_ms: u64,
    /// Pods that a change of the template replaces at a time.
    pub rollout: RolloutSpec,
    /// Name of the store on the node.
    pub store: String,
    /// Name of the Model whose files containers find.
    pub model: Option<String>,
    /// Paths that the gateway serves.
    pub paths: ServedPaths,
    /// Callers that the gateway admits.
    pub callers: AllowedCallers,
    /// Cost of a millicore, in bytes.
    pub alpha_bytes_per_millicore: u64,
}

/// Source of a function's pods.
#[derive(Debug, Clone, PartialEq)]
pub enum PodSource {
    /// The function's own template.
    Template(Arc<CheckedTemplate>),
    /// An engine's template.
    Engine(EngineSpec),
}

/// GPU that a function asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedGpu {
    /// Type of the GPU; any that the profile has without one.
    pub kind: Option<GpuType>,
    /// Least private device memory of an instance, in bytes.
    pub own_bytes: u64,
    /// Runtime class of the pods.
    pub runtime_class: String,
}

impl InferenceFunction {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that is out of range, with the value found and the values expected.
    pub fn checked(&self) -> Result<CheckedFunction, FieldProblem> {
        let (name, spec) = (self.name_any(), &self.spec);
        FieldProblem::check_text("metadata.name", &name, MAX_LABEL)?;
        if let Some(profile) = &spec.profile {
            FieldProblem::check_text("spec.profile", profile, 253)?;
        }
        let namespace = self.namespace().unwrap_or_default();
        let (scale_in, window_ms) = spec.scale_in.checked(spec.min_instances)?;
        let store = spec.store.clone().unwrap_or_else(|| namespace.clone());
        if spec.store.is_some() {
            FieldProblem::check_text("spec.store", &store, MAX_LABEL)?;
        }
        let alpha = "spec.alphaBytesPerMillicore";
        let (min_instances, max_instances) = self.instances()?;
        Ok(CheckedFunction {
            profile: spec.profile.clone().unwrap_or_else(|| name.clone()),
            profiling: self.profiling()?,
            slo: self.slo()?,
            percentile: spec.slo.percentile,
            pods: self.pods()?,
            load: spec.load.checked()?,
            min_instances,
            max_instances,
            gpu: self.gpu()?,
            configurations: self.only()?,
            scaling: spec.scaling,
            scale_in,
            window_ms,
            rollout: spec.rollout.checked()?,
            store,
            model: self.model()?,
            paths: self.paths()?,
            callers: spec.callers.checked(&namespace)?,
            alpha_bytes_per_millicore: FieldProblem::check(
                alpha,
                spec.alpha_bytes_per_millicore,
                0,
                MAX_ALPHA,
            )?,
            namespace,
            name,
        })
    }

    fn profiling(&self) -> Result<Option<CheckedProfiling>, FieldProblem> {
        if self.spec.profile.is_some() {
            return Ok(None);
        }
        if self.spec.gpu.is_some() {
            let problem = "found no profile, expected one: the operator measures no configurations with a GPU; measure them with `tetris-scaler profile`";
            return Err(FieldProblem::new("spec.profile", problem));
        }
        self.spec.profiling.checked().map(Some)
    }

    fn pods(&self) -> Result<PodSource, FieldProblem> {
        let spec = &self.spec;
        match (&spec.template, &spec.engine) {
            (Some(template), None) => {
                let with_gpu = spec.gpu.is_some();
                let checked = template.checked(spec.container.as_deref(), with_gpu)?;
                Ok(PodSource::Template(Arc::new(checked)))
            }
            (None, Some(engine)) if spec.model.is_some() => Ok(PodSource::Engine(engine.clone())),
            (None, Some(_)) => {
                let problem =
                    "found an engine without a model, expected `spec.model`, the name of a Model";
                Err(FieldProblem::new("spec.engine", problem))
            }
            (None, None) => {
                let problem = "found neither a template nor `spec.engine`, expected one of them";
                Err(FieldProblem::new("spec.template", problem))
            }
            (Some(_), Some(_)) => {
                let problem = "found an engine beside `spec.template`, expected one of them";
                Err(FieldProblem::new("spec.engine", problem))
            }
        }
    }

    fn slo(&self) -> Result<Slo, FieldProblem> {
        let (field, millis) = ("spec.slo.latencyMillis", self.spec.slo.latency_millis);
        FieldProblem::check(field, millis, 1, 7_200_000)?;
        let slo = Slo::try_from_us(millis.saturating_mul(1_000));
        slo.map_err(|error| FieldProblem::new(field, error.to_string()))
    }

    fn instances(&self) -> Result<(u32, u32), FieldProblem> {
        let (min, max) = (self.spec.min_instances, self.spec.max_instances);
        FieldProblem::check("spec.maxInstances", max.into(), 1, MAX_INSTANCES)?;
        FieldProblem::check("spec.minInstances", min.into(), 0, MAX_INSTANCES)?;
        if min > max {
            let problem = format!("found {min}, expected at most `spec.maxInstances`, {max}");
            return Err(FieldProblem::new("spec.minInstances", problem));
        }
        Ok((min, max))
    }

    fn gpu(&self) -> Result<Option<CheckedGpu>, FieldProblem> {
        let Some(gpu) = &self.spec.gpu else {
            return Ok(None);
        };
        let kind = gpu.kind.as_ref().map(|kind| kind.parse::<GpuType>());
        let kind = kind.transpose();
        let own_bytes = gpu.own_bytes.unwrap_or(0);
        FieldProblem::check_text("spec.gpu.runtimeClass", &gpu.runtime_class, 253)?;
        Ok(Some(CheckedGpu {
            kind: kind.map_err(|error| FieldProblem::new("spec.gpu.type", error.to_string()))?,
            own_bytes: FieldProblem::check("spec.gpu.ownBytes", own_bytes, 0, MAX_MEMORY_BYTES)?,
            runtime_class: gpu.runtime_class.clone(),
        }))
    }

    fn model(&self) -> Result<Option<String>, FieldProblem> {
        let name = self.spec.model.as_ref();
        name.map_or(Ok(()), |name| {
            FieldProblem::check_text("spec.model", name, MAX_MODEL)
        })?;
        Ok(name.cloned())
    }

    fn paths(&self) -> Result<ServedPaths, FieldProblem> {
        let Some(patterns) = &self.spec.paths else {
            return Ok(ServedPaths::default());
        };
        ServedPaths::parse(patterns)
            .map_err(|error| FieldProblem::new("spec.paths", error.to_string()))
    }

    fn only(&self) -> Result<Vec<String>, FieldProblem> {
        let Some(names) = &self.spec.configurations else {
            return Ok(Vec::new());
        };
        if names.is_empty() {
            let problem = "found an empty list, expected names; leave it out for all";
            return Err(FieldProblem::new("spec.configurations", problem));
        }
        Ok(names.clone())
    }
}
