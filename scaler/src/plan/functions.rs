//! Functions with their profiles and loads.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{FunctionModel, FunctionView, Profile, Rate};
use tetris_store_layout::ObjectId;

use super::args::LoadOverride;
use super::documents::{Documents, FoundDocument};
use super::error::PlanError;
use crate::resources::{CheckedFunction, CheckedProfile, GpuLoad, LoadSource, stored_object};
use crate::state::Key;

/// A function, its profile and its load.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) key: Key,
    pub(super) checked: CheckedFunction,
    pub(super) model: Arc<FunctionModel>,
    /// Names of all configurations of the profile, by index.
    pub(super) names: Vec<String>,
    /// The allowed configurations.
    pub(super) allowed: Profile,
    pub(super) load: Rate,
    /// Measured loads of its model to GPUs.
    pub(super) gpu_loads: Vec<GpuLoad>,
    pub(super) profile: Key,
    /// Objects of its model that a profile lists.
    pub(super) listed: Vec<ObjectId>,
}

/// Returns all functions, by namespace and name.
pub(super) fn functions(
    documents: &mut Documents,
    loads: &[LoadOverride],
) -> Result<Vec<Function>, PlanError> {
    let functions_read = std::mem::take(&mut documents.functions);
    if functions_read.is_empty() {
        let problem = "no InferenceFunction is given; add a file with one with -f".to_owned();
        return Err(PlanError::Missing { problem });
    }
    let mut loads = overrides(loads, &functions_read)?;
    let checked = functions_read.into_iter().map(|(key, functions_read)| {
        let load = loads.remove(&key);
        function(key, functions_read, load, &documents.profiles)
    });
    checked.collect()
}

fn overrides(
    loads: &[LoadOverride],
    functions: &BTreeMap<Key, FoundDocument<CheckedFunction>>,
) -> Result<BTreeMap<Key, Rate>, PlanError> {
    let mut by_key = BTreeMap::new();
    for LoadOverride { function, load } in loads {
        let is_meant = |key: &&Key| key.name == *function || key.to_string() == *function;
        let meant: Vec<&Key> = functions.keys().filter(is_meant).collect();
        let [key] = meant.as_slice() else {
            let all: Vec<String> = functions.keys().map(Key::to_string).collect();
            let problem = format!(
                "--load {function}: found {} functions of that name, expected one of: {}",
                meant.len(),
                all.join(", ")
            );
            return Err(PlanError::Missing { problem });
        };
        by_key.insert((*key).clone(), *load);
    }
    Ok(by_key)
}

fn function(
    key: Key,
    found: FoundDocument<CheckedFunction>,
    load: Option<Rate>,
    profiles: &BTreeMap<Key, FoundDocument<CheckedProfile>>,
) -> Result<Function, PlanError> {
    let FoundDocument {
        at,
        object: checked,
    } = found;
    let load = load.map_or_else(|| own_load(&at, &key, &checked), Ok)?;
    let profile = Key::new(&key.namespace, &checked.profile);
    let Some(measured) = profiles.get(&profile) else {
        let problem = format!("no ModelProfile {profile} is given; add its file with -f");
        return Err(PlanError::Document { at, problem });
    };
    let field = |problem| PlanError::Field {
        at: at.clone(),
        problem,
    };
    let allowed = checked.allowed(&measured.object).map_err(field)?;
    let all = measured.object.for_function(&checked, allowed);
    let all = all.map_err(field)?;
    let some = all.allowed_profile();
    let tensors = measured.object.tensors(&checked.store).map_err(field)?;
    let objects = measured.object.objects.iter();
    let listed = objects.map(|(id, _)| stored_object(&checked.store, id));
    let listed = listed.collect();
    let model = FunctionModel {
        name: key.to_string(),
        profile: all.profile,
        slo: checked.slo,
        tensors,
        store: checked.store.clone(),
        allowed: all.allowed,
        alpha_bytes_per_millicore: checked.alpha_bytes_per_millicore,
    };
    Ok(Function {
        key,
        checked,
        allowed: some.unwrap_or_else(|| model.profile.clone()),
        gpu_loads: measured.object.gpu_loads.clone(),
        model: Arc::new(model),
        names: all.names,
        load,
        profile,
        listed,
    })
}

fn own_load(at: &str, key: &Key, function: &CheckedFunction) -> Result<Rate, PlanError> {
    match &function.load {
        LoadSource::Static(rate) => Ok(*rate),
        LoadSource::Prometheus(_) => Err(not_queried(at, key, "Prometheus")),
        LoadSource::Gateway => Err(not_queried(at, key, "the gateways")),
    }
}

fn not_queried(at: &str, key: &Key, source: &str) -> PlanError {
    PlanError::Document {
        at: at.to_owned(),
        problem: format!(
            "the load of {key} is in {source}, which `plan` does not query; give it with --load {key}=RPS"
        ),
    }
}

impl Function {
    pub(super) fn view(&self) -> FunctionView {
        FunctionView {
            model: Arc::clone(&self.model),
            load: Some(self.load),
            // The plan assumes a load that was constant for a whole window.
            peak: Some(self.load),
            min_instances: self.checked.min_instances,
            max_instances: self.checked.max_instances,
            scale_in: self.checked.scale_in,
            consolidate: true,
        }
    }
}
