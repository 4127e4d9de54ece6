//! Models that nodes have been given, for the gates of pods that need them, and what nodes have of models.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetris_scaler_core::{FunctionModel, Inventory};

use crate::operator::observed::Observed;
use crate::operator::placing::Step;
use crate::state::Key;

/// Longest wait of a gate for its pod's model to be given to the node, in milliseconds. Without the model the pod waits for
/// its volume; with it in time, the scheduler has room for the pod that keeps the model first.
const PATIENCE_MS: u64 = 5_000;

/// Nodes of models, by namespace and name of the model. Clones share them.
#[derive(Debug, Clone, Default)]
pub(in crate::operator) struct OrderedModels(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Nodes that models are given; `None` for all nodes with the labels.
    given: BTreeMap<Key, Option<BTreeSet<String>>>,
    tensors: Arc<NotedTensors>,
}

/// Tensors that functions of models have in their profiles, and those that nodes have.
#[derive(Debug, Default)]
pub(super) struct NotedTensors {
    functions: BTreeMap<Key, Vec<Arc<FunctionModel>>>,
    inventory: Arc<Inventory>,
}

impl NotedTensors {
    /// Bytes of a model's tensors on nodes.
    pub(super) fn resident(&self, model: &Key) -> BTreeMap<String, u64> {
        let mut resident: BTreeMap<String, u64> = BTreeMap::new();
        for function in self.functions.get(model).into_iter().flatten() {
            for (node, theta) in self.inventory.thetas(&function.tensors).iter() {
                if theta.resident_bytes > 0 {
                    let most = resident.entry(node.to_owned()).or_default();
                    *most = theta.resident_bytes.max(*most);
                }
            }
        }
        resident
    }
}

impl OrderedModels {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes where models are given.
    pub(super) fn set(&self, ordered: BTreeMap<Key, Option<BTreeSet<String>>>) {
        self.known().given = ordered;
    }

    /// Notes the tensors of models and nodes.
    pub(in crate::operator) fn note_tensors(&self, observed: &Observed) {
        let mut functions: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        for input in &observed.functions {
            if let (Ok(function), Ok(prepared)) = (&input.record.function, &input.prepared)
                && let Some(model) = &function.model
            {
                let key = Key::new(input.record.key.namespace.clone(), model.clone());
                let of_model = functions.entry(key).or_default();
                of_model.push(Arc::clone(&prepared.model));
            }
        }
        self.known().tensors = Arc::new(NotedTensors {
            functions,
            inventory: Arc::clone(&observed.inventory),
        });
    }

    /// The tensors, as they were noted last.
    pub(super) fn tensors(&self) -> Arc<NotedTensors> {
        Arc::clone(&self.known().tensors)
    }

    /// Leaves out steps that open a gate towards a planned node which has not been given the pod's model yet.
    pub(in crate::operator) fn hold_back(&self, steps: &mut Vec<Step>, observed: &Observed) {
        let known = self.known();
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
                let nodes = known.given.get(&model).and_then(Option::as_ref);
                nodes.is_none_or(|nodes| nodes.contains(node))
            }),
            _ => true,
        });
    }
}
