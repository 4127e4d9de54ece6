//! Functions with their profiles, as input of the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::FunctionModel;
use thiserror::Error;

use super::records::{FunctionRecord, ProfileRecord};
use crate::resources::{CheckedFunction, CheckedProfile, FieldProblem, MeasuredConfiguration};
use crate::state::Key;

/// A function that can be decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The validated function.
    pub function: Arc<CheckedFunction>,
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
    /// An invalid field of the profile.
    #[error("ModelProfile {profile:?}: {problem}")]
    Profile {
        /// Name of the profile.
        profile: String,
        /// The invalid field.
        problem: FieldProblem,
    },
}

/// Combines `function` with its `profile`.
///
/// # Errors
///
/// The invalid field of the function or of the profile.
pub fn prepare(
    function: &Arc<CheckedFunction>,
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
        model: Arc::new(model),
        measured: profile.configurations.clone(),
        names: selected.names.into(),
    })
}

type Version = (String, i64, Option<(String, i64)>);

/// Prepared functions, cached until they or their profiles change, as a model has thousands of
/// objects.
#[derive(Debug, Default)]
pub struct Preparations(BTreeMap<Key, (Version, Result<Arc<Prepared>, Unprepared>)>);

impl Preparations {
    /// Returns `record` with its profile out of `profiles`.
    ///
    /// # Errors
    ///
    /// The reason the function cannot be decided on.
    pub fn get(
        &mut self,
        record: &FunctionRecord,
        profiles: &BTreeMap<Key, Arc<ProfileRecord>>,
    ) -> Result<Arc<Prepared>, Unprepared> {
        let function = record.function.as_ref().map_err(Clone::clone)?;
        let named = Key::new(function.namespace.clone(), function.profile.clone());
        let profile = profiles.get(&named);
        let version = profile.map(|profile| profile.version.clone());
        let version = (record.uid.clone(), record.generation, version);
        if let Some((known, prepared)) = self.0.get(&record.key)
            && *known == version
        {
            return prepared.clone();
        }
        let prepared = read(function, profile.map(Arc::as_ref)).map(Arc::new);
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
    profile: Option<&ProfileRecord>,
) -> Result<Prepared, Unprepared> {
    let name = || function.profile.clone();
    let profile = profile.ok_or_else(|| Unprepared::NoProfile(name()))?;
    match &profile.profile {
        Ok(profile) => prepare(function, profile),
        Err(problem) => Err(Unprepared::Profile {
            profile: name(),
            problem: problem.clone(),
        }),
    }
}
