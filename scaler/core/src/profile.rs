//! Profile of a model.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::configuration::Configuration;
use crate::rate::Slo;

/// Maximum number of configurations of one profile.
pub const MAX_CONFIGURATIONS: usize = 4_096;

/// All measured configurations of a model: O in the paper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Configuration>", into = "Vec<Configuration>")]
pub struct Profile(Vec<Configuration>);

/// The reason a list of configurations is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No configurations, or too many.
    #[error("found {found} configurations, expected 1 to {MAX_CONFIGURATIONS}")]
    Count {
        /// Number of configurations.
        found: usize,
    },
    /// Two measurements of the same setting.
    #[error(
        "configurations {first} and {second} have the same `cpu_millis`, `batch`, `concurrency` and type of GPU; keep one of the two"
    )]
    Duplicate {
        /// Index of the first one.
        first: usize,
        /// Index of the second one.
        second: usize,
    },
}

impl Profile {
    /// Creates a profile of configurations that differ in CPU, batch size, concurrency or type of GPU.
    ///
    /// # Errors
    ///
    /// Fails if there are no configurations, too many, or two of the same setting.
    pub fn try_new(configurations: Vec<Configuration>) -> Result<Self, ProfileError> {
        let found = configurations.len();
        if found == 0 || found > MAX_CONFIGURATIONS {
            return Err(ProfileError::Count { found });
        }
        let mut seen = std::collections::BTreeMap::new();
        for (second, configuration) in configurations.iter().enumerate() {
            let kind = configuration.gpu().map(|gpu| gpu.kind);
            let setting = (
                configuration.cpu_millis(),
                configuration.batch(),
                configuration.concurrency(),
                kind,
            );
            if let Some(first) = seen.insert(setting, second) {
                return Err(ProfileError::Duplicate { first, second });
            }
        }
        Ok(Self(configurations))
    }

    /// Configurations in the given order; plans refer to them by index.
    pub fn configurations(&self) -> &[Configuration] {
        &self.0
    }

    /// Returns the configurations that meet `slo`, with their indices.
    pub fn feasible(&self, slo: Slo) -> impl Iterator<Item = (usize, &Configuration)> {
        let all = self.0.iter().enumerate();
        all.filter(move |(_, entry)| entry.meets(slo))
    }

    /// Smallest objective that some configuration meets, in microseconds.
    pub fn least_slo_us(&self) -> u64 {
        let times = self.0.iter().map(Configuration::least_slo_us);
        times.min().unwrap_or(u64::MAX)
    }
}

impl TryFrom<Vec<Configuration>> for Profile {
    type Error = ProfileError;

    fn try_from(configurations: Vec<Configuration>) -> Result<Self, ProfileError> {
        Self::try_new(configurations)
    }
}

impl From<Profile> for Vec<Configuration> {
    fn from(profile: Profile) -> Self {
        profile.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::ConfigurationSpec;

    #[test]
    fn profiles_are_read_from_json_and_checked() {
        let spec = ConfigurationSpec {
            cpu_millis: 1_000,
            own_bytes: 10,
            shared_bytes: 20,
            batch: 1,
            concurrency: 1,
            latency_us: 50_000,
            rate_millis: None,
            gpu: None,
        };
        let row = r#"{"cpu_millis":1000,"own_bytes":10,"shared_bytes":20,"batch":1,"concurrency":1,"latency_us":50000}"#;
        let profile: Profile = serde_json::from_str(&format!("[{row}]")).unwrap();
        assert_eq!(
            profile.configurations(),
            [Configuration::try_new(spec).unwrap()]
        );
        assert_eq!(serde_json::to_string(&profile).unwrap(), format!("[{row}]"));
        for (text, says) in [
            ("[]".to_owned(), "found 0"),
            (format!("[{row},{row}]"), "configurations 0 and 1"),
            (
                format!("[{}]", row.replace(":50000", ":0")),
                "`latency_us` is 0",
            ),
            (format!("[{}]", row.replace("own", "extra")), "extra_bytes"),
        ] {
            let error = serde_json::from_str::<Profile>(&text).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
