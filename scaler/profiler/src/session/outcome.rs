//! Outcome of a profiling session.

use crate::command::BATCH_WAIT_MILLIS;
use crate::database::StoredProfile;
use crate::measurement::Measurement;
use crate::model_profile::{
    API_VERSION, KIND, Measured, Metadata, ModelProfileManifest, ModelProfileSpec,
    ProfiledConfiguration, ProfiledGpuLoad,
};
use crate::plan::RuledOut;
use crate::setting::Setting;

/// Outcome of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// Measured, now or earlier.
    Measured(Measurement),
    /// Ruled out by measurements.
    RuledOut(RuledOut),
    /// Not begun, as the budget was used up.
    OutOfTime,
    /// Failed, with the error.
    Failed(String),
}

/// A profile, with an outcome for each requested setting.
#[derive(Clone, Debug)]
pub struct SessionOutcome {
    /// Name of the profile.
    pub name: String,
    /// The profile without its configurations.
    pub profile: StoredProfile,
    /// Settings with their outcomes, in order.
    pub fates: Vec<(Setting, Fate)>,
}

impl SessionOutcome {
    /// Returns the measured configurations.
    pub fn measured(&self) -> impl Iterator<Item = &Measurement> {
        self.fates.iter().filter_map(|(_, fate)| match fate {
            Fate::Measured(measurement) => Some(measurement),
            Fate::RuledOut(_) | Fate::OutOfTime | Fate::Failed(_) => None,
        })
    }

    /// Number of configurations that could not be measured.
    pub fn failures(&self) -> usize {
        let fates = self.fates.iter();
        fates
            .filter(|(_, fate)| matches!(fate, Fate::Failed(_)))
            .count()
    }

    /// Returns the configurations of the resource. Unverified private memory is the largest of all: a start needs
    /// about as much in each, and its short peak is seen in some only.
    fn configurations(&self) -> Vec<ProfiledConfiguration> {
        let unverified = self.measured().filter(|measured| !measured.verified);
        let largest = unverified.map(|measured| measured.own_bytes).max();
        let all = self.measured().map(|measured| {
            let mut profiled = measured.profiled();
            if let Some(largest) = largest.filter(|_| !measured.verified) {
                profiled.own_bytes = largest;
            }
            profiled
        });
        all.collect()
    }

    /// Returns the loads of `bytes` to the types of GPUs whose rate is known.
    fn gpu_loads(&self, bytes: u64) -> Vec<ProfiledGpuLoad> {
        let mut loads: Vec<ProfiledGpuLoad> = Vec::new();
        for on in self.measured().filter_map(|entry| entry.on_gpu.as_ref()) {
            let kind = on.gpu.kind;
            let Some(rate) = on.gpu.bytes_per_second.filter(|_| bytes > 0) else {
                continue;
            };
            let micros = u128::from(bytes) * 1_000_000 / u128::from(rate.max(1));
            let micros = u64::try_from(micros).unwrap_or(u64::MAX).max(1);
            if !loads.iter().any(|load| load.kind == kind) {
                loads.push(ProfiledGpuLoad {
                    kind,
                    bytes,
                    micros,
                });
            }
        }
        loads
    }

    /// Returns the resource.
    pub fn manifest(&self) -> ModelProfileManifest {
        let profile = &self.profile;
        let (objects, unlisted_bytes) = profile.shared.listed();
        ModelProfileManifest {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: Metadata {
                name: self.name.clone(),
            },
            spec: ModelProfileSpec {
                model: profile.model.clone(),
                configurations: self.configurations(),
                gpus: self.gpu_loads(profile.shared.bytes()),
                objects,
                unlisted_bytes,
                manifests: profile.shared.manifests().to_vec(),
                measured: Some(Measured {
                    at: profile.at.clone(),
                    machine: profile.machine.processor.clone(),
                    cpus: profile.machine.cpus,
                    memory_bytes: profile.machine.memory_bytes,
                    command: profile.command.clone(),
                    requests: self.measured().map(|request| request.requests).sum(),
                    batch_wait_millis: Some(BATCH_WAIT_MILLIS),
                }),
            },
        }
    }
}
