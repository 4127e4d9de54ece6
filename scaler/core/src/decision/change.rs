//! Decision of a function, assembled from its step and its plan.

use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::consolidate::Move;
use super::prefer::prefer;
use super::started::{Started, Unplaced};
use super::state::{State, count};
use super::step::{Growth, Step};
use super::{FunctionDecision, FunctionOutcome, Settings};
use crate::rate::Rate;

/// All changes to a function.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) step: Step,
    pub(super) started: Started,
    pub(super) moved: Option<Move>,
}

impl Change {
    pub(super) fn decision(
        self,
        state: &State<'_>,
        cluster: &Cluster<'_>,
        settings: &Settings,
    ) -> FunctionDecision {
        let outcome = self.outcome(state);
        let Self {
            step,
            mut started,
            moved,
        } = self;
        let release = match step {
            Step::Release(release, _) => release,
            Step::Keep(_) | Step::Grow(_) => Vec::new(),
        };
        let mut retiring = state.least_loaded_first(&state.retiring);
        retiring.retain(|at| !release.contains(at));
        if let Some(moved) = moved {
            started = moved.started;
            retiring = moved.retiring;
        }
        started.counts.retain(|_, count| *count > 0);
        let stays = |at: &&usize| !release.contains(at) && !retiring.contains(at);
        let ready: Vec<usize> = state.ready.iter().filter(stays).copied().collect();
        let starting: Vec<usize> = state.starting.iter().filter(stays).copied().collect();
        let ready = state.rate(&ready);
        let committed = ready.plus(state.rate(&starting));
        FunctionDecision {
            replicas: replicas(state, &release, &started.counts),
            ranking: ranking(state, &release, &retiring),
            preferred: prefer(
                cluster,
                &state.view.model,
                &started.counts,
                &started.nodes,
                settings,
            ),
            capacity: committed.plus(rate(state, &started.counts)),
            ready,
            needed: state.needed(),
            start: started.counts,
            release,
            retiring,
            outcome,
        }
    }

    fn outcome(&self, state: &State<'_>) -> FunctionOutcome {
        if let Some(moved) = &self.moved {
            return FunctionOutcome::Consolidating {
                starting: moved.started.counts.values().sum(),
                retiring: count(moved.retiring.len()),
            };
        }
        match &self.step {
            Step::Keep(outcome) | Step::Release(_, outcome) => outcome.clone(),
            Step::Grow(growth) => self.grown(state, growth),
        }
    }

    fn grown(&self, state: &State<'_>, growth: &Growth) -> FunctionOutcome {
        let started = self.started.counts.values().sum();
        match &self.started.unplaced {
            Some(Unplaced::TooSmall(node, missing)) => FunctionOutcome::NoNodeLargeEnough {
                node: node.clone(),
                missing: *missing,
                started,
            },
            Some(Unplaced::Full(node, missing)) => FunctionOutcome::OutOfRoom {
                node: node.clone(),
                missing: *missing,
                started,
            },
            Some(Unplaced::Other(error)) => FunctionOutcome::Unplanned {
                error: error.clone(),
                started,
            },
            None if self.started.capped => FunctionOutcome::AtMaximum {
                max_instances: state.view.max_instances,
                uncovered: growth.least.minus(rate(state, &self.started.counts)),
            },
            None if state.view.load.is_none() => FunctionOutcome::LoadUnknown { started },
            None => FunctionOutcome::ScaledOut { started },
        }
    }
}

fn rate(state: &State<'_>, counts: &BTreeMap<usize, u32>) -> Rate {
    let all = state.view.model.profile.configurations();
    let rates = counts
        .iter()
        .filter_map(|(&at, &count)| Some(all.get(at)?.rate().times(count.into())));
    rates.sum()
}

/// Returns the decided number of instances by configuration, for all configurations with instances.
fn replicas(
    state: &State<'_>,
    release: &[usize],
    start: &BTreeMap<usize, u32>,
) -> BTreeMap<usize, u32> {
    let mut replicas = start.clone();
    let known = state.view.model.profile.configurations().len();
    let live = [
        &state.ready,
        &state.starting,
        &state.failing,
        &state.retiring,
        &state.outdated,
    ];
    for &at in live.into_iter().flatten().chain(&state.leaving) {
        let configuration = state
            .instance(at)
            .and_then(|instance| instance.configuration);
        let Some(configuration) = configuration.filter(|&entry| entry < known) else {
            continue;
        };
        let stays = !release.contains(&at) && !state.leaving.contains(&at);
        let replicas = replicas.entry(configuration).or_default();
        *replicas = replicas.saturating_add(u32::from(stays));
    }
    replicas
}

/// Returns the order of deletion: leaving instances, released ones, retiring ones, outdated ones,
/// failing ones, those that start, then the least loaded.
fn ranking(state: &State<'_>, release: &[usize], retiring: &[usize]) -> Vec<usize> {
    let mut ranking = state.leaving.clone();
    let (outdated, ready) = (
        state.least_loaded_first(&state.outdated),
        state.least_loaded_first(&state.ready),
    );
    let lists = [
        release,
        retiring,
        &outdated,
        &state.failing,
        &state.starting,
        &ready,
    ];
    let mut seen: std::collections::BTreeSet<usize> = ranking.iter().copied().collect();
    for &at in lists.into_iter().flatten() {
        if seen.insert(at) {
            ranking.push(at);
        }
    }
    ranking
}
