//! A profile that has been checked.

use tetris_scaler_core::{
    Configuration, ConfigurationSpec, FieldError, MAX_MEMORY_BYTES, ModelTensors, Profile,
    ProfileError,
};
use tetris_store_layout::ObjectId;

use super::object::{stored_object, unlisted_object};
use super::percentile::Percentile;
use super::problem::FieldProblem;
use super::profile::{LatencyMicros, MeasuredConfiguration, ModelProfile};

/// The most objects of one profile, so that a resource stays below what an API server takes.
pub const MAX_OBJECTS: usize = 8_192;

/// A [`ModelProfile`] whose fields have been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedProfile {
    /// The model's name in the inference protocol.
    pub model: String,
    /// What was measured, in the order given.
    pub configurations: Vec<MeasuredConfiguration>,
    /// The objects of the store that hold the model.
    pub objects: Vec<(ObjectId, u64)>,
    /// Bytes of tensors that are not listed.
    pub unlisted_bytes: u64,
}

/// Configurations that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// For the core.
    pub profile: Profile,
    /// The name of each configuration of it, by index.
    pub names: Vec<String>,
}

impl ModelProfile {
    /// Checks every field.
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
    /// The configurations with the latency of `percentile`, only those named, or all if none is. Errors name
    /// fields of the profile, but of names, which are the function's.
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

    /// The model's tensors as the scaler's inventory names them: those of `store`, and one for what is not
    /// listed, which no node has.
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

    /// Bytes that instances of a node share.
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
        };
        Configuration::try_new(spec).map_err(|error| out_of_range(index, measure, &error))
    }
}

impl LatencyMicros {
    /// The latency of `percentile`, and its field's name.
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
        "latency_us" => format!("latencyMicros.{measure}"),
        // The sum of all objects.
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
