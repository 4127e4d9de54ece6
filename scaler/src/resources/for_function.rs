//! A profile from the view of one function.

use tetris_scaler_core::Profile;

use super::checked_function::{CheckedFunction, CheckedGpu};
use super::checked_profile::CheckedProfile;
use super::problem::FieldProblem;
use super::profile::MeasuredConfiguration;

/// The configurations of a profile, and those of them that a function may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForFunction {
    /// All configurations, as the core takes them.
    pub profile: Profile,
    /// Names of all configurations, by index.
    pub names: Vec<String>,
    /// Indices of the allowed ones.
    pub allowed: Vec<usize>,
}

impl CheckedFunction {
    /// Returns the indices of the configurations of its `profile` that the function may use: those of
    /// `spec.configurations`, without a GPU, or with the one that it asks for.
    ///
    /// # Errors
    ///
    /// The field of the function that leaves none.
    pub fn allowed(&self, profile: &CheckedProfile) -> Result<Vec<usize>, FieldProblem> {
        self.check_names(profile)?;
        let all = profile.configurations.iter().enumerate();
        let with_gpu: Vec<(usize, &MeasuredConfiguration)> = all
            .filter(|(_, configuration)| self.takes(configuration))
            .collect();
        if with_gpu.is_empty() {
            return Err(self.no_such_gpu(profile));
        }
        let named = |one: &MeasuredConfiguration| {
            self.configurations.is_empty() || self.configurations.contains(&one.name())
        };
        let allowed = with_gpu.iter().filter(|(_, entry)| named(entry));
        let allowed: Vec<usize> = allowed.map(|(index, _)| *index).collect();
        if allowed.is_empty() {
            let names: Vec<String> = with_gpu.iter().map(|(_, gpu)| gpu.name()).collect();
            let problem = format!(
                "found none that `spec.gpu` allows, expected one of: {}",
                names.join(", ")
            );
            return Err(FieldProblem::new("spec.configurations", problem));
        }
        Ok(allowed)
    }

    /// Returns true if the configuration has the GPU of the function, or both have none.
    fn takes(&self, one: &MeasuredConfiguration) -> bool {
        match &self.gpu {
            None => one.gpu_type.is_empty(),
            Some(CheckedGpu { kind: None, .. }) => !one.gpu_type.is_empty(),
            Some(CheckedGpu {
                kind: Some(kind), ..
            }) => kind.as_str() == one.gpu_type,
        }
    }

    fn no_such_gpu(&self, profile: &CheckedProfile) -> FieldProblem {
        let types = profile.configurations.iter();
        let mut types: Vec<&str> = types.map(|entry| entry.gpu_type.as_str()).collect();
        types.sort_unstable();
        types.dedup();
        types.retain(|kind| !kind.is_empty());
        let all = types.join(", ");
        let measure = "measure one with `tetris-scaler profile --gpu`";
        let (field, problem) = match self.gpu.as_ref().map(|gpu| gpu.kind) {
            None => (
                "spec.gpu",
                format!(
                    "found none, expected one, as the profile has only configurations with GPUs: {all}"
                ),
            ),
            Some(_) if types.is_empty() => (
                "spec.gpu",
                format!(
                    "found one, expected none, as the profile has no configuration with a GPU; {measure}"
                ),
            ),
            Some(kind) => (
                "spec.gpu.type",
                format!(
                    "found {:?}, expected a type of the profile: {all}; or {measure}",
                    kind.map(String::from).unwrap_or_default()
                ),
            ),
        };
        FieldProblem::new(field, problem)
    }

    fn check_names(&self, profile: &CheckedProfile) -> Result<(), FieldProblem> {
        let all: Vec<String> = profile
            .configurations
            .iter()
            .map(MeasuredConfiguration::name)
            .collect();
        let mut names = self.configurations.iter().enumerate();
        let Some((index, name)) = names.find(|(_, name)| !all.contains(name)) else {
            return Ok(());
        };
        let problem = format!(
            "found {name:?}, expected a configuration of the profile: {}",
            all.join(", ")
        );
        let field = format!("spec.configurations[{index}]");
        Err(FieldProblem::new(field, problem))
    }
}

impl CheckedProfile {
    /// Returns the configurations for a function, of which it may use those of `allowed`.
    ///
    /// # Errors
    ///
    /// A field of the profile.
    pub fn for_function(
        &self,
        function: &CheckedFunction,
        allowed: Vec<usize>,
    ) -> Result<ForFunction, FieldProblem> {
        let own_bytes = function.gpu.as_ref().map_or(0, |gpu| gpu.own_bytes);
        let names = self.configurations.iter();
        Ok(ForFunction {
            profile: self.profile(function.percentile, own_bytes)?,
            names: names.map(MeasuredConfiguration::name).collect(),
            allowed,
        })
    }
}

impl ForFunction {
    /// Returns the allowed configurations as their own profile.
    pub fn allowed_profile(&self) -> Option<Profile> {
        let all = self.profile.configurations();
        let some = self.allowed.iter().filter_map(|at| all.get(*at).copied());
        Profile::try_new(some.collect()).ok()
    }
}
