//! Validated form of a [`ModelProfile`].

use tetris_scaler_core::{
    Configuration, ConfigurationSpec, FieldError, MAX_MEMORY_BYTES, ModelTensors, Profile,
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
    /// Objects of the store that hold the model, each with its size in bytes.
    pub objects: Vec<(ObjectId, u64)>,
    /// Size of the tensors that the profile does not list, in bytes.
    pub unlisted_bytes: u64,
}

/// The configurations that the scaler may choose for a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Profile of the allowed configurations, as the core takes it.
    pub profile: Profile,
    /// Names of its configurations, by index.
    pub names: Vec<String>,
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
            objects: self.objects()?,
            unlisted_bytes: spec.unlisted_bytes,
        };
        for (index, one) in checked.configurations.iter().enumerate() {
            check_latencies(index, &one.latency_micros)?;
        }
        checked.tensors("")?;
        checked.select(Percentile::default(), &[])?;
        Ok(checked)
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
    /// Selects the configurations named in `only`, or all if `only` is empty, with the latency of
    /// `percentile`.
    ///
    /// # Errors
    ///
    /// A [`FieldProblem`] that names a field of the profile, or, for an unknown name, a field of
    /// the function.
    pub fn select(
        &self,
        percentile: Percentile,
        only: &[String],
    ) -> Result<Selected, FieldProblem> {
        self.check_names(only)?;
        let (mut chosen, mut names, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        for (index, one) in self.configurations.iter().enumerate() {
            let name = one.name();
            if only.is_empty() || only.contains(&name) {
                chosen.push(self.configuration(index, one, percentile)?);
                names.push(name);
                indices.push(index);
            }
        }
        let profile = Profile::try_new(chosen).map_err(|error| duplicate(&error, &indices))?;
        Ok(Selected { profile, names })
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

    fn check_names(&self, only: &[String]) -> Result<(), FieldProblem> {
        for (index, name) in only.iter().enumerate() {
            if !self.configurations.iter().any(|one| one.name() == *name) {
                let all: Vec<String> = self
                    .configurations
                    .iter()
                    .map(MeasuredConfiguration::name)
                    .collect();
                let problem = format!(
                    "found {name:?}, expected a configuration of the profile: {}",
                    all.join(", ")
                );
                let field = format!("spec.configurations[{index}]");
                return Err(FieldProblem::new(field, problem));
            }
        }
        Ok(())
    }

    fn configuration(
        &self,
        index: usize,
        one: &MeasuredConfiguration,
        percentile: Percentile,
    ) -> Result<Configuration, FieldProblem> {
        let (latency_us, measure) = one.latency_micros.at(percentile);
        let spec = ConfigurationSpec {
            cpu_millis: one.cpu_millis,
            own_bytes: one.own_bytes,
            shared_bytes: self.shared_bytes(),
            batch: one.batch,
            concurrency: one.concurrency,
            latency_us,
            rate_millis: one.rate_millis,
        };
        Configuration::try_new(spec).map_err(|error| out_of_range(index, measure, &error))
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

fn duplicate(error: &ProfileError, indices: &[usize]) -> FieldProblem {
    let original = |index: &usize| indices.get(*index).copied().unwrap_or(*index);
    match error {
        ProfileError::Duplicate { first, second } => {
            let field = format!("spec.configurations[{}]", original(second));
            let problem = format!(
                "found the `cpuMillis`, `batch` and `concurrency` of `spec.configurations[{}]`, expected others; keep one of the two",
                original(first)
            );
            FieldProblem::new(field, problem)
        }
        other => FieldProblem::new("spec.configurations", other.to_string()),
    }
}
