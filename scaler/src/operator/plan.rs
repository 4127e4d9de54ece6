//! From what was observed to what is to be done: pure, without a clock.

mod external;
mod instances;
mod replicas;

use std::sync::Arc;

use serde_json::Value;
use tetris_scaler_core::{FunctionDecision, Settings, View, decide};

use super::observed::{FunctionInput, Observed};
use super::prepare::Prepared;
use super::report;
use super::view::Assembled;
use crate::resources::{FieldProblem, InferenceFunctionStatus, Scaling};
use crate::state::{FunctionState, Key, Snapshot};

/// The most writes for one function in one pass. What is left is planned again in the next.
pub const MAX_ACTIONS: usize = 100;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Mark a pod. `None` leaves a mark as it is.
    Mark {
        /// The pod.
        pod: Key,
        /// Whether it is being replaced.
        retiring: Option<bool>,
        /// Its deletion cost.
        cost: Option<i32>,
    },
    /// Apply a Deployment that is there, unless it was written meanwhile; or make one that is not.
    Apply {
        /// Its namespace and name.
        key: Key,
        /// Whether it was there.
        is_present: bool,
        /// The object.
        object: Value,
    },
    /// Change only the number of instances, of a configuration that is not known any more.
    Scale {
        /// The Deployment.
        key: Key,
        /// As it was.
        version: String,
        /// How many instances.
        replicas: u32,
    },
    /// Delete a Deployment that has no pods, unless it was written meanwhile.
    Delete {
        /// The Deployment.
        key: Key,
        /// Which of that name.
        uid: String,
        /// As it was.
        version: String,
    },
    /// Tell people.
    Event {
        /// Whether something is wrong.
        is_warning: bool,
        /// Why, in one word.
        reason: String,
        /// Why, in a sentence.
        note: String,
    },
    /// Report.
    Status(Box<InferenceFunctionStatus>),
}

/// What is to be done for one function, one after the other, until something fails.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    /// The function.
    pub record: Arc<super::records::FunctionRecord>,
    /// What is to be done.
    pub actions: Vec<Action>,
    /// What was decided, if it could be.
    pub state: Option<Arc<FunctionState>>,
}

/// What is to be done, and what readers are told.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// By function.
    pub functions: Vec<FunctionPlan>,
    /// What was decided.
    pub snapshot: Snapshot,
}

/// What is to be done about what was observed at `now_ms`, milliseconds since the epoch.
///
/// **Guarantees.** The same for the same input. Once it is carried out and seen, and the loads stay, nothing is left
/// to do. Numbers of instances are absolute, and go with the version of the Deployment that they follow from: an
/// old view writes nothing. A function that cannot be decided on keeps what it has. No template changes because
/// nodes or tensors did.
pub fn reconcile(observed: &Observed, settings: &Settings, now_ms: u64) -> Plan {
    let assembled = Assembled::new(observed);
    let view = View {
        functions: &assembled.functions,
        instances: &assembled.instances,
        nodes: &assembled.nodes,
        inventory: &observed.inventory,
    };
    let decision = decide(&view, settings);
    let mut decided: Vec<Option<FunctionDecision>> = vec![None; observed.functions.len()];
    for (&index, decision) in assembled.inputs.iter().zip(decision.functions) {
        if let Some(slot) = decided.get_mut(index) {
            *slot = Some(decision);
        }
    }
    let mut plan = Plan {
        functions: Vec::with_capacity(observed.functions.len()),
        snapshot: Snapshot {
            nodes: assembled.nodes.clone().into(),
            inventory: Arc::clone(&observed.inventory),
            decided_ms: now_ms,
            ..Snapshot::default()
        },
    };
    for (input, decision) in observed.functions.iter().zip(decided) {
        let one = function_plan(observed, &assembled, input, decision.as_ref(), now_ms);
        if let Some(state) = &one.state {
            let key = input.record.key.clone();
            plan.snapshot.functions.insert(key, Arc::clone(state));
        }
        plan.functions.push(one);
    }
    plan
}

fn function_plan(
    observed: &Observed,
    assembled: &Assembled,
    input: &FunctionInput,
    decision: Option<&FunctionDecision>,
    now_ms: u64,
) -> FunctionPlan {
    let mut plan = FunctionPlan {
        record: Arc::clone(&input.record),
        actions: Vec::new(),
        state: None,
    };
    if input.record.is_deleting {
        // What it owns goes with it, and nothing else is kept of it.
        return plan;
    }
    let scene = Scene::new(observed, assembled, input, decision);
    let actions = scene
        .as_ref()
        .map_or_else(|| Ok(Vec::new()), Scene::actions);
    let problem = actions.as_ref().err().cloned();
    plan.actions = actions.unwrap_or_default();
    plan.actions.truncate(MAX_ACTIONS);
    plan.state = scene.as_ref().map(Scene::state);
    let unknown = || external::ready_of_unknown(observed, &input.record.key);
    let facts = report::Facts {
        input,
        decision,
        ready: &scene.as_ref().map_or_else(unknown, Scene::ready),
        problem: problem.as_ref(),
        now_ms,
    };
    plan.actions.extend(report::report(&facts));
    plan
}

/// A function that was decided on, and all that its actions follow from.
struct Scene<'a> {
    observed: &'a Observed,
    assembled: &'a Assembled,
    input: &'a FunctionInput,
    prepared: &'a Prepared,
    decision: &'a FunctionDecision,
}

impl<'a> Scene<'a> {
    fn new(
        observed: &'a Observed,
        assembled: &'a Assembled,
        input: &'a FunctionInput,
        decision: Option<&'a FunctionDecision>,
    ) -> Option<Self> {
        Some(Self {
            observed,
            assembled,
            input,
            prepared: input.prepared.as_ref().ok()?,
            decision: decision?,
        })
    }

    fn state(&self) -> Arc<FunctionState> {
        Arc::new(FunctionState {
            function: Arc::clone(&self.prepared.function),
            model: Arc::clone(&self.prepared.model),
            configurations: Arc::clone(&self.prepared.names),
            load: self.input.load.as_ref().ok().copied(),
            decision: self.decision.clone(),
        })
    }

    /// Marks first: a Deployment that shrinks goes by them. Nothing for a function that others scale.
    fn actions(&self) -> Result<Vec<Action>, FieldProblem> {
        if self.prepared.function.scaling == Scaling::External {
            return Ok(Vec::new());
        }
        let mut actions = self.marks();
        actions.extend(self.deployments()?);
        Ok(actions)
    }
}
