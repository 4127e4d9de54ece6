//! Models that nodes have been given, for the gates of pods that need them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use crate::operator::observed::Observed;
use crate::operator::placing::Step;
use crate::state::Key;

/// Longest wait of a gate for its pod's model to be given to the node, in milliseconds. Without the model the pod waits for
/// its volume; with it in time, the scheduler has room for the pod that keeps the model first.
const PATIENCE_MS: u64 = 5_000;

/// Nodes by namespace and name of the model; `None` for all nodes with its labels. Clones share them.
#[derive(Debug, Clone, Default)]
pub(in crate::operator) struct OrderedModels(Arc<Mutex<BTreeMap<Key, Option<BTreeSet<String>>>>>);

impl OrderedModels {
    /// Notes where models are given.
    pub(super) fn set(&self, ordered: BTreeMap<Key, Option<BTreeSet<String>>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ordered;
    }

    /// Leaves out steps that open a gate towards a planned node which has not been given the pod's model yet.
    pub(in crate::operator) fn hold_back(&self, steps: &mut Vec<Step>, observed: &Observed) {
        let ordered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let model_of = |pod: &Key| {
            let instance = observed.pods.get(pod)?.instance.as_ref()?;
            let mut functions = observed.functions.iter().map(|input| &input.record);
            let record = functions.find(|record| {
                record.key.namespace == pod.namespace && record.key.name == instance.function
            })?;
            let model = record.function.as_ref().ok()?.model.clone()?;
            Some(Key::new(pod.namespace.clone(), model))
        };
        steps.retain(|step| match step {
            Step::Open {
                pod,
                node: Some(node),
                reason: "planned",
                waited_ms,
                ..
            } if *waited_ms < PATIENCE_MS => model_of(pod).is_none_or(|model| {
                let nodes = ordered.get(&model).and_then(Option::as_ref);
                nodes.is_none_or(|nodes| nodes.contains(node))
            }),
            _ => true,
        });
    }
}
