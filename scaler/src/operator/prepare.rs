//! Functions with their profiles, as input of the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::FunctionModel;
use thiserror::Error;

use super::engines::{EngineProblem, KnownEngines};
use super::records::{FunctionRecord, ProfileRecord};
use crate::resources::{
    CheckedFunction, CheckedProfile, CheckedTemplate, FieldProblem, MeasuredConfiguration,
};
use crate::state::Key;

/// A function that can be decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The validated function.
    pub function: Arc<CheckedFunction>,
    /// Template of its pods.
    pub template: Arc<CheckedTemplate>,
    /// Input of the core.
    pub model: Arc<FunctionModel>,
    /// Configurations of the profile, by index.
    pub measured: Vec<MeasuredConfiguration>,
    /// Names of the configurations, by index.
    pub names: Arc<[String]>,
}

/// The reason a function cannot be decided on. Its instances stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unprepared {
    /// An invalid field of the function.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// A missing profile.
    #[error(
        "`spec.profile`: found no ModelProfile {0:?} in the namespace; create it with `tetris-scaler profile`"
    )]
    NoProfile(String),
    /// A profile that the operator has not written yet.
    #[error("the operator has not begun to measure the function")]
    Unmeasured,
    /// No template of an engine.
    #[error(transparent)]
    Engine(#[from] EngineProblem),
    /// An invalid field of the profile.
    #[error("ModelProfile {profile:?}: {problem}")]
    Profile {
        /// Name of the profile.
        profile: String,
        /// The invalid field.
        problem: FieldProblem,
    },
}

/// Combines `function` with the `template` of its pods and with its `profile`.
///
/// # Errors
///
/// The invalid field of the function or of the profile.
pub fn prepare(
    function: &Arc<CheckedFunction>,
    template: &Arc<CheckedTemplate>,
    profile: &CheckedProfile,
) -> Result<Prepared, Unprepared> {
    let of_profile = |problem| Unprepared::Profile {
        profile: function.profile.clone(),
        problem,
    };
    let allowed = function.allowed(profile)?;
    let selected = profile
        .for_function(function, allowed)
        .map_err(of_profile)?;
    let tensors = profile.tensors(&function.store).map_err(of_profile)?;
    let model = FunctionModel {
        name: Key::new(function.namespace.clone(), function.name.clone()).to_string(),
        profile: selected.profile,
        slo: function.slo,
        tensors,
        store: function.store.clone(),
        allowed: selected.allowed,
        alpha_bytes_per_millicore: function.alpha_bytes_per_millicore,
    };
    Ok(Prepared {
        function: Arc::clone(function),
        template: Arc::clone(template),
        model: Arc::new(model),
        measured: profile.configurations.clone(),
        names: selected.names.into(),
    })
}

/// Versions of what a preparation is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    uid: String,
    generation: i64,
    profile: Option<(String, i64)>,
    template: String,
}

/// Prepared functions, cached until they, their profiles or their engines change, as a model has thousands of
/// objects.
#[derive(Debug, Default)]
pub struct Preparations(BTreeMap<Key, (Version, Result<Arc<Prepared>, Unprepared>)>);

impl Preparations {
    /// Returns `record` with its profile out of `profiles`, and its template, maybe out of `engines`.
    ///
    /// # Errors
    ///
    /// The reason the function cannot be decided on.
    pub fn get(
        &mut self,
        record: &FunctionRecord,
        profiles: &BTreeMap<Key, Arc<ProfileRecord>>,
        engines: &KnownEngines,
    ) -> Result<Arc<Prepared>, Unprepared> {
        let function = record.function.as_ref().map_err(Clone::clone)?;
        let named = Key::new(function.namespace.clone(), function.profile.clone());
        let profile = profiles.get(&named);
        let mut version = Version {
            uid: record.uid.clone(),
            generation: record.generation,
            profile: profile.map(|profile| profile.version.clone()),
            template: String::new(),
        };
        let known = self.0.get(&record.key);
        let is_current = |template: &str| {
            template.clone_into(&mut version.template);
            known.is_some_and(|(known, _)| *known == version)
        };
        let resolved = engines.template(function, is_current);
        let Some(resolved) = resolved else {
            let prepared = known.map(|(_, prepared)| prepared.clone());
            return prepared.unwrap_or(Err(Unprepared::Unmeasured));
        };
        let prepared = match resolved.template {
            Ok(template) => read(function, &template, profile.map(Arc::as_ref)).map(Arc::new),
            Err(problem) => Err(problem.into()),
        };
        let kept = (version, prepared.clone());
        self.0.insert(record.key.clone(), kept);
        prepared
    }

    /// Removes functions that are not among `present`.
    pub fn keep<T>(&mut self, present: &BTreeMap<Key, T>) {
        self.0.retain(|key, _| present.contains_key(key));
    }
}

fn read(
    function: &Arc<CheckedFunction>,
    template: &Arc<CheckedTemplate>,
    profile: Option<&ProfileRecord>,
) -> Result<Prepared, Unprepared> {
    let name = || function.profile.clone();
    let profile = profile.ok_or_else(|| match function.profiling {
        Some(_) => Unprepared::Unmeasured,
        None => Unprepared::NoProfile(name()),
    })?;
    match &profile.profile {
        Ok(profile) => prepare(function, template, profile),
        Err(problem) => Err(Unprepared::Profile {
            profile: name(),
            problem: problem.clone(),
        }),
    }
}
