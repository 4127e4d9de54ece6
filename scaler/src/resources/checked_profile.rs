//! Validated form of a [`ModelProfile`].

use tetris_scaler_core::{
    Configuration, ConfigurationSpec, FieldError, GpuType, MAX_MEMORY_BYTES, ModelTensors, Profile,
    ProfileError,
};
use tetris_store_layout::ObjectId;

use super::object::{stored_object, unlisted_object};
use super::percentile::Percentile;
use super::problem::FieldProblem;
use super::profile::{LatencyMicros, MeasuredConfiguration, ModelProfile};

/// Maximum number of objects of one profile; keeps a resource below the API server's size limit.
pub const MAX_OBJECTS: usize = 8_192;

/// A [`ModelProfile`] with validated fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedProfile {
    /// Name of the model in the inference protocol.
    pub model: String,
    /// Measured configurations, in the order of the resource.
    pub configurations: Vec<MeasuredConfiguration>,
    /// Measured loads to GPUs, no two of one type.
    pub gpu_loads: Vec<GpuLoad>,
    /// Objects of the store that hold the model, each with its size in bytes.
    pub objects: Vec<(ObjectId, u64)>,
    /// Size of the tensors that the profile does not list, in bytes.
    pub unlisted_bytes: u64,
}

/// Measured load of a model's tensors to an empty GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuLoad {
    /// Type of the GPU.
    pub kind: GpuType,
    /// Bytes that it copied.
    pub bytes: u64,
    /// Time that it took, in microseconds.
    pub micros: u64,
}

impl GpuLoad {
    /// Returns the time in which `bytes` arrive at the measured rate, in microseconds, rounded up.
    pub fn micros_of(&self, bytes: u64) -> u64 {
        let product = u128::from(self.micros) * u128::from(bytes);
        let micros = product.div_ceil(u128::from(self.bytes.max(1)));
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

impl ModelProfile {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that is out of range, with the value found and the values expected.
    pub fn checked(&self) -> Result<CheckedProfile, FieldProblem> {
        let spec = &self.spec;
        FieldProblem::check_text("spec.model", &spec.model, 253)?;
        let unlisted = "spec.unlistedBytes";
        FieldProblem::check(unlisted, spec.unlisted_bytes, 0, MAX_MEMORY_BYTES)?;
        let checked = CheckedProfile {
            model: spec.model.clone(),
            configurations: spec.configurations.clone(),
            gpu_loads: self.gpu_loads()?,
            objects: self.objects()?,
            unlisted_bytes: spec.unlisted_bytes,
        };
        for (index, configuration) in checked.configurations.iter().enumerate() {
            check_latencies(index, &configuration.latency_micros)?;
            check_gpu(index, configuration)?;
        }
        checked.tensors("")?;
        checked.profile(Percentile::default(), 0)?;
        checked.check_distinct_names()?;
        Ok(checked)
    }

    fn gpu_loads(&self) -> Result<Vec<GpuLoad>, FieldProblem> {
        let mut loads: Vec<GpuLoad> = Vec::new();
        for (index, gpu) in self.spec.gpus.iter().enumerate() {
            let field = |name| format!("spec.gpus[{index}].{name}");
            let load = GpuLoad {
                kind: gpu_type(&field("type"), &gpu.kind)?,
                bytes: FieldProblem::check(field("bytes"), gpu.bytes, 1, MAX_MEMORY_BYTES)?,
                micros: FieldProblem::check(
                    field("micros"),
                    gpu.micros,
                    1,
                    tetris_scaler_core::MAX_LATENCY_US,
                )?,
            };
            if loads.iter().any(|other| other.kind == load.kind) {
                let problem = format!("found {:?} twice, expected each type once", gpu.kind);
                return Err(FieldProblem::new(field("type"), problem));
            }
            loads.push(load);
        }
        Ok(loads)
    }

    fn objects(&self) -> Result<Vec<(ObjectId, u64)>, FieldProblem> {
        let objects = &self.spec.objects;
        if objects.len() > MAX_OBJECTS {
            let problem = format!(
                "found {} objects, expected at most {MAX_OBJECTS}; add the smallest up in `spec.unlistedBytes`",
                objects.len()
            );
            return Err(FieldProblem::new("spec.objects", problem));
        }
        let read = objects.iter().enumerate().map(|(index, object)| {
            let field = format!("spec.objects[{index}]");
            let id = object.id.parse().map_err(|_| {
                let problem = format!(
                    "found {:?}, expected 64 hexadecimal digits in lower case",
                    object.id.chars().take(80).collect::<String>()
                );
                FieldProblem::new(format!("{field}.id"), problem)
            })?;
            let bytes = format!("{field}.bytes");
            Ok((
                id,
                FieldProblem::check(bytes, object.bytes, 1, MAX_MEMORY_BYTES)?,
            ))
        });
        read.collect()
    }
}

impl CheckedProfile {
    /// Returns all configurations as the core takes them, with the latency of `percentile` and at
    /// least `gpu_own_bytes` of private memory on a GPU.
    ///
    /// # Errors
    ///
    /// A [`FieldProblem`] that names a field of the profile.
    pub fn profile(
        &self,
        percentile: Percentile,
        gpu_own_bytes: u64,
    ) -> Result<Profile, FieldProblem> {
        let numbered = self.configurations.iter().enumerate();
        let specs = numbered.map(|(index, configuration)| {
            let mut spec = self.spec(configuration, percentile);
            if let Some(gpu) = &mut spec.gpu {
                gpu.own_bytes = gpu.own_bytes.max(gpu_own_bytes);
            }
            let measure = percentile_field(percentile);
            Configuration::try_new(spec).map_err(|error| out_of_range(index, measure, &error))
        });
        let all = specs.collect::<Result<_, _>>()?;
        Profile::try_new(all).map_err(|error| duplicate(&error))
    }

    /// Returns the model's tensors as the scaler's inventory names them: the objects of `store`,
    /// and one object that no node has for the unlisted bytes.
    pub fn tensors(&self, store: &str) -> Result<ModelTensors, FieldProblem> {
        let listed = self.objects.iter();
        let listed = listed.map(|(id, bytes)| (stored_object(store, id), *bytes));
        let unlisted = (self.unlisted_bytes > 0).then(|| {
            let id = unlisted_object(store, &self.model);
            (id, self.unlisted_bytes)
        });
        ModelTensors::try_new(listed.chain(unlisted))
            .map_err(|error| FieldProblem::new("spec.objects", error.to_string()))
    }

    /// Number of bytes that instances on one node share.
    pub fn shared_bytes(&self) -> u64 {
        let mut seen = std::collections::BTreeSet::new();
        let once = self.objects.iter().filter(|(id, _)| seen.insert(*id));
        once.fold(self.unlisted_bytes, |sum, (_, bytes)| {
            sum.saturating_add(*bytes)
        })
    }

    /// Checks that no two types of GPUs have the same slug, as names of configurations have it.
    fn check_distinct_names(&self) -> Result<(), FieldProblem> {
        let mut seen = std::collections::BTreeMap::new();
        for (index, entry) in self.configurations.iter().enumerate() {
            if let Some(first) = seen.insert(entry.name(), index) {
                let problem = format!(
                    "found {:?}, whose configuration has the name {:?} of `spec.configurations[{first}]`; leave out entry of the two types",
                    entry.gpu_type,
                    entry.name()
                );
                let field = format!("spec.configurations[{index}].gpuType");
                return Err(FieldProblem::new(field, problem));
            }
        }
        Ok(())
    }

    fn spec(&self, one: &MeasuredConfiguration, percentile: Percentile) -> ConfigurationSpec {
        let (latency_us, _) = one.latency_micros.at(percentile);
        ConfigurationSpec {
            cpu_millis: one.cpu_millis,
            own_bytes: one.own_bytes,
            shared_bytes: self.shared_bytes(),
            batch: one.batch,
            concurrency: one.concurrency,
            latency_us,
            rate_millis: one.rate_millis,
            gpu: one.gpu_needs(),
        }
    }
}

impl LatencyMicros {
    /// Returns the latency of `percentile` in microseconds, and the name of its field.
    fn at(&self, percentile: Percentile) -> (u64, &'static str) {
        match percentile {
            Percentile::P50 => (self.p50, "p50"),
            Percentile::P90 => (self.p90, "p90"),
            Percentile::P95 => (self.p95, "p95"),
            Percentile::P99 => (self.p99, "p99"),
        }
    }
}

fn percentile_field(percentile: Percentile) -> &'static str {
    LatencyMicros::default().at(percentile).1
}

/// Checks the GPU of a configuration, and that it has a type and measurements or neither.
fn check_gpu(index: usize, one: &MeasuredConfiguration) -> Result<(), FieldProblem> {
    let field = |name| format!("spec.configurations[{index}].{name}");
    match (&one.gpu, one.gpu_type.is_empty()) {
        (None, true) => return Ok(()),
        (Some(_), true) => {
            let problem = "found none, expected the type of GPU of `gpu`";
            return Err(FieldProblem::new(field("gpuType"), problem));
        }
        (None, false) => {
            let problem = format!(
                "found none, expected the measurements on {:?}",
                one.gpu_type
            );
            return Err(FieldProblem::new(field("gpu"), problem));
        }
        (Some(_), false) => {}
    }
    gpu_type(&field("gpuType"), &one.gpu_type)?;
    let inference = one.gpu.and_then(|gpu| gpu.inference_micros).unwrap_or(1);
    let most = tetris_scaler_core::MAX_LATENCY_US;
    FieldProblem::check(field("gpu.inferenceMicros"), inference, 1, most).map(|_| ())
}

fn gpu_type(field: &str, text: &str) -> Result<GpuType, FieldProblem> {
    let read = text.parse::<GpuType>();
    read.map_err(|error| FieldProblem::new(field, error.to_string()))
}

fn check_latencies(index: usize, all: &LatencyMicros) -> Result<(), FieldProblem> {
    let field = |name| format!("spec.configurations[{index}].latencyMicros.{name}");
    let mut last = ("", 0);
    for percentile in [
        Percentile::P50,
        Percentile::P90,
        Percentile::P95,
        Percentile::P99,
    ] {
        let (us, name) = all.at(percentile);
        let most = tetris_scaler_core::MAX_LATENCY_US;
        FieldProblem::check(field(name), us, 1, most)?;
        if us < last.1 {
            let problem = format!("found {us}, expected at least {}, {}", last.0, last.1);
            return Err(FieldProblem::new(field(name), problem));
        }
        last = (name, us);
    }
    Ok(())
}

fn out_of_range(index: usize, measure: &str, error: &FieldError) -> FieldProblem {
    let field = match error.field {
        "cpu_millis" => "cpuMillis".to_owned(),
        "own_bytes" => "ownBytes".to_owned(),
        "rate_millis" => "rateMillis".to_owned(),
        "gpu.own_bytes" => "gpu.ownBytes".to_owned(),
        "latency_us" => format!("latencyMicros.{measure}"),
        // The value is the sum of the sizes of all objects.
        "shared_bytes" => {
            let problem = format!(
                "found {} bytes in all, expected at most {}",
                error.value, error.max
            );
            return FieldProblem::new("spec.objects", problem);
        }
        other => other.to_owned(),
    };
    let problem = format!(
        "found {}, expected {} to {}",
        error.value, error.min, error.max
    );
    FieldProblem::new(format!("spec.configurations[{index}].{field}"), problem)
}

fn duplicate(error: &ProfileError) -> FieldProblem {
    match error {
        ProfileError::Duplicate { first, second } => {
            let field = format!("spec.configurations[{second}]");
            let problem = format!(
                "found the `cpuMillis`, `batch`, `concurrency` and `gpuType` of `spec.configurations[{first}]`, expected others; keep one of the two"
            );
            FieldProblem::new(field, problem)
        }
        other => FieldProblem::new("spec.configurations", other.to_string()),
    }
}
