//! Routes of a cluster's functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler::operator::records::{FunctionRecord, ProfileRecord};
use tetris_scaler::resources::CheckedFunction;
use tetris_scaler::state::Key;
use tetris_scaler_core::Configuration;
use tetris_scaler_dispatch::{Capacity, Rules};

use super::pod::InstanceRecord;
use crate::config::ClusterDefaults;
use crate::endpoint::Instance;
use crate::function::{Access, Function};
use crate::function_name::FunctionName;
use crate::routes::{Route, Routes};

/// Rules of all functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) defaults: ClusterDefaults,
    /// Number of gateways, at least 1.
    pub(super) gateways: u32,
}

impl Common {
    fn rules(self, function: &CheckedFunction) -> Rules {
        let mut rules = self.defaults.rules(function.slo);
        rules.gateways = self.gateways;
        rules
    }
}

type Objects<V> = BTreeMap<Key, Arc<V>>;

/// Functions by name. They stay the same ones when objects change, with all their requests.
#[derive(Debug, Default)]
pub(super) struct Functions(BTreeMap<Key, Arc<Function>>);

impl Functions {
    pub(super) fn update(
        &mut self,
        functions: &Objects<FunctionRecord>,
        profiles: &Objects<ProfileRecord>,
        pods: &Objects<InstanceRecord>,
        common: Common,
    ) -> Arc<Routes> {
        let mut by_function: BTreeMap<Key, Vec<(&Key, &InstanceRecord)>> = BTreeMap::new();
        for (key, pod) in pods {
            let function = Key::new(key.namespace.clone(), pod.function.clone());
            by_function.entry(function).or_default().push((key, pod));
        }
        self.0.retain(|key, _| functions.contains_key(key));
        for (key, record) in functions {
            // An invalid function keeps the rules and instances that it had.
            let Ok(checked) = &record.function else {
                continue;
            };
            let rules = common.rules(checked);
            let function = self.0.entry(key.clone()).or_insert_with(|| {
                let name = FunctionName {
                    namespace: key.namespace.clone(),
                    name: key.name.clone(),
                };
                Function::new(name, rules)
            });
            function.set_rules(rules);
            function.set_access(Access {
                paths: checked.paths.clone(),
                callers: checked.callers.clone(),
            });
            let profile = Key::new(key.namespace.clone(), checked.profile.clone());
            let capacities = capacities(checked, profiles.get(&profile).map(Arc::as_ref));
            let its = by_function.remove(key).unwrap_or_default();
            let instances = its
                .into_iter()
                .map(|(pod, of)| instance(pod, of, &capacities));
            function.set_instances(&instances.collect::<Vec<_>>());
        }
        Arc::new(Routes::new(self.0.values().map(|function| Route {
            function: Arc::clone(function),
            hosts: Vec::new(),
            models: Vec::new(),
            openai_models: Vec::new(),
        })))
    }
}

fn instance(pod: &Key, of: &InstanceRecord, capacities: &BTreeMap<String, Capacity>) -> Instance {
    Instance {
        key: of.uid.clone(),
        name: pod.name.clone(),
        configuration: of.configuration.clone(),
        address: of.address,
        capacity: capacities
            .get(&of.configuration)
            .copied()
            .unwrap_or(UNKNOWN),
        ready: of.ready,
    }
}

/// Capacity of an instance whose configuration is not in the profile any more: it serves one request
/// at a time until it is replaced.
const UNKNOWN: Capacity = Capacity {
    batch: 1,
    concurrency: 1,
    latency_us: 100_000,
    batch_wait_us: 0,
    rate: None,
};

/// Capacities of a profile's configurations, by name.
fn capacities(
    function: &CheckedFunction,
    profile: Option<&ProfileRecord>,
) -> BTreeMap<String, Capacity> {
    let checked = profile.and_then(|record| record.profile.as_ref().ok());
    // Instances of configurations that the function allows no more still run.
    let selected = checked.and_then(|profile| profile.for_function(function, Vec::new()).ok());
    let Some(selected) = selected else {
        return BTreeMap::new();
    };
    let all: &[Configuration] = selected.profile.configurations();
    let named = selected.names.into_iter().zip(all);
    named
        .map(|(name, selected)| (name, Capacity::of(selected, function.slo)))
        .collect()
}
