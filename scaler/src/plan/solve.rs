//! The decision as instances on nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tetris_scaler_core::{Decision, FunctionDecision, FunctionOutcome, Placed, Settings, decide};

use super::problem::Problem;

/// A decision, and the nodes of its instances.
#[derive(Debug)]
pub(super) struct Solved {
    pub(super) decision: Decision,
    /// Instances that stay or start, once the decision is executed. Models are indices of
    /// functions.
    pub(super) placed: Vec<Placed>,
    /// Number of them that run, by function, configuration and node.
    pub(super) running: BTreeMap<(usize, usize, usize), u32>,
    /// Number of instances that fit on no node, by function and configuration.
    pub(super) waiting: BTreeMap<(usize, usize), u32>,
    pub(super) took: Duration,
}

/// Number of preferred nodes; no fewer than instances could start on.
const PREFERRED_NODES: u32 = 1_000;

pub(super) fn solve(problem: &Problem) -> Solved {
    let settings = Settings {
        preferred_nodes: PREFERRED_NODES,
        ..Settings::default()
    };
    let start = Instant::now();
    let decision = decide(&problem.view(), &settings);
    let took = start.elapsed();
    let mut solved = Solved {
        decision: Decision::default(),
        placed: Vec::new(),
        running: running(problem, &decision),
        waiting: BTreeMap::new(),
        took,
    };
    let mut counts = solved.running.clone();
    for (function, decided) in decision.functions.iter().enumerate() {
        solved.start(function, decided, &mut counts);
    }
    let placed = counts.into_iter();
    solved.placed = placed
        .map(|((model, configuration, node), count)| Placed {
            model,
            node,
            configuration,
            gpu: None,
            count,
        })
        .collect();
    solved.decision = decision;
    solved
}

/// Returns the number of instances that run and stay.
fn running(problem: &Problem, decision: &Decision) -> BTreeMap<(usize, usize, usize), u32> {
    let mut counts = BTreeMap::new();
    for (index, instance) in problem.instances.iter().enumerate() {
        let decided = decision.functions.get(instance.function);
        let goes = decided.is_none_or(|decided| {
            decided.release.contains(&index) || decided.retiring.contains(&index)
        });
        let leaving = instance.phase == tetris_scaler_core::Phase::Leaving;
        if let (Some(configuration), Some(node), false) =
            (instance.configuration, instance.node, goes || leaving)
        {
            *counts
                .entry((instance.function, configuration, node))
                .or_default() += 1;
        }
    }
    counts
}

impl Solved {
    fn start(
        &mut self,
        function: usize,
        decided: &FunctionDecision,
        counts: &mut BTreeMap<(usize, usize, usize), u32>,
    ) {
        for (&configuration, &count) in &decided.start {
            let mut left = count;
            let preferred = decided.preferred.get(&configuration);
            for preference in preferred.into_iter().flatten() {
                let planned = preference.planned.min(left);
                if planned > 0 {
                    *counts
                        .entry((function, configuration, preference.node))
                        .or_default() += planned;
                }
                left = left.saturating_sub(planned);
            }
            if left > 0 {
                self.waiting.insert((function, configuration), left);
            }
        }
    }

    /// Returns true if the plan carries all loads.
    pub(super) fn feasible(&self) -> bool {
        let mut functions = 0..self.decision.functions.len();
        functions.all(|function| self.carries(function))
    }

    /// Returns true if the plan carries the function's load.
    pub(super) fn carries(&self, function: usize) -> bool {
        let waits = self.waiting.keys().any(|(waiting, _)| *waiting == function);
        let decided = self.decision.functions.get(function);
        decided.is_some_and(|function| {
            !waits && function.capacity >= function.needed && fine(function)
        })
    }
}

fn fine(decided: &FunctionDecision) -> bool {
    matches!(
        decided.outcome,
        FunctionOutcome::Steady
            | FunctionOutcome::ScaledOut { .. }
            | FunctionOutcome::ScaledIn { .. }
            | FunctionOutcome::Consolidating { .. }
            | FunctionOutcome::Renewing { .. }
            | FunctionOutcome::MakingRoom { .. }
    )
}
