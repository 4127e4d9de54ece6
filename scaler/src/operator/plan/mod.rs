//! Plan of a pass: from observations to actions, pure and without a clock.

mod external;
mod instances;
mod replicas;

use std::sync::Arc;

use tetris_scaler_core::{FunctionDecision, Settings, View, decide};

pub use super::action::Action;
use super::health::Failing;
use super::latency::Service;
use super::observed::{FunctionInput, Observed};
use super::prepare::Prepared;
use super::report;
use super::view::Assembled;
use crate::resources::{FieldProblem, Scaling};
use crate::state::{FunctionState, Snapshot};

/// Maximum number of writes for one function in one pass. The next pass plans the rest.
pub const MAX_ACTIONS: usize = 100;

/// Actions for one function, in order, until one fails.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    /// The function.
    pub record: Arc<super::records::FunctionRecord>,
    /// Actions in order.
    pub actions: Vec<Action>,
    /// State with the decision, if there is one.
    pub state: Option<Arc<FunctionState>>,
    /// Instances that fail.
    pub failing: Failing,
}

/// Actions, and the snapshot for readers.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Plans by function.
    pub functions: Vec<FunctionPlan>,
    /// Snapshot of the decisions.
    pub snapshot: Snapshot,
}

/// Plans the actions for the observations at `now_ms`, milliseconds since the epoch.
///
/// **Guarantees.** The plan depends only on the input. After its execution, with the same loads, no
/// actions are left. Numbers of instances are absolute, and tied to the observed version of the
/// Deployment: an outdated view writes nothing. A function without a decision keeps its instances.
/// Changes of nodes or tensors change no template.
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
            decided_ms: now_ms,
            ..Snapshot::default()
        },
    };
    for (input, decision) in observed.functions.iter().zip(decided) {
        let function = function_plan(observed, &assembled, input, decision.as_ref(), now_ms);
        if let Some(state) = &function.state {
            let key = input.record.key.clone();
            plan.snapshot.functions.insert(key, Arc::clone(state));
        }
        plan.functions.push(function);
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
        failing: input.failing.clone(),
    };
    if input.record.is_deleting {
        // The garbage collector deletes its Deployments, and there is no other state.
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
    let service = scene.as_ref().and_then(Scene::service);
    let unknown = || external::ready_of_unknown(observed, &input.record.key);
    let facts = report::Facts {
        input,
        decision,
        ready: &scene.as_ref().map_or_else(unknown, Scene::ready),
        service: service.as_ref(),
        problem: problem.as_ref(),
        now_ms,
    };
    plan.actions.extend(report::report(&facts));
    plan
}

/// A function with its decision and all input of its actions.
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

    /// Returns the latency in service, beside that of the profile.
    fn service(&self) -> Option<Service> {
        let mut inputs = self.assembled.inputs.iter();
        let is_same = |at: &usize| {
            let input = self.observed.functions.get(*at);
            input.is_some_and(|input| input.record.key == self.input.record.key)
        };
        let at = inputs.position(is_same)?;
        *self.assembled.services.get(at)?
    }

    fn state(&self) -> Arc<FunctionState> {
        Arc::new(FunctionState {
            function: Arc::clone(&self.prepared.function),
            model: Arc::clone(&self.prepared.model),
            configurations: Arc::clone(&self.prepared.names),
            load: self.input.load.as_ref().ok().copied(),
            decision: self.decision.clone(),
            failing: self.input.failing.counts(),
        })
    }

    /// Returns the actions, marks first, as a shrinking Deployment uses them. Returns none for a
    /// function that another autoscaler scales.
    fn actions(&self) -> Result<Vec<Action>, FieldProblem> {
        if self.prepared.function.scaling == Scaling::External {
            return Ok(Vec::new());
        }
        let mut actions = self.marks();
        actions.extend(self.deployments()?);
        Ok(actions)
    }
}
