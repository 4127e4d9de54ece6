//! Functions without planned Deployments.

use std::collections::BTreeMap;

use crate::operator::observed::Observed;
use crate::state::Key;

/// Returns the ready instances by configuration of a function without a decision.
pub(super) fn ready_of_unknown(observed: &Observed, function: &Key) -> BTreeMap<String, u32> {
    let mut ready = BTreeMap::new();
    for pod in observed.pods.values() {
        if let Some(instance) = &pod.instance
            && pod.key.namespace == function.namespace
            && instance.function == function.name
            && instance.is_ready
            && !instance.is_leaving
        {
            *ready.entry(instance.configuration.clone()).or_default() += 1;
        }
    }
    ready
}
