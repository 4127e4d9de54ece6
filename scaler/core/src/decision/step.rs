//! Step of a single function, before the plan.

use super::cluster::Cluster;
use super::state::{State, count};
use super::{FunctionOutcome, Settings};
use crate::rate::Rate;
use crate::scale_in::{Running, ScaleInConfig, ScaleInPolicy, scale_in};

/// Step for one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing starts and nothing stops.
    Keep(FunctionOutcome),
    /// These instances are released, in this order.
    Release(Vec<usize>, FunctionOutcome),
    /// Instances start.
    Grow(Growth),
}

/// Instances to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Growth {
    /// Preferred additional rate: the load with the headroom of scaling in.
    pub(super) load: Rate,
    /// Required additional rate: the load with the headroom of scaling out.
    pub(super) least: Rate,
    /// Minimum number of instances.
    pub(super) instances: u32,
}

/// Number of parts in which outdated instances make room; each part is replaced before the next one
/// stops.
const PARTS: usize = 4;

/// Decides for one function; may end the retirement of its instances.
pub(super) fn step(state: &mut State<'_>, cluster: &Cluster<'_>, settings: &Settings) -> Step {
    let surplus = state.live().saturating_sub(state.view.max_instances);
    if surplus > 0 {
        return above_maximum(state, surplus as usize);
    }
    if let Err(outcome) = &state.usable {
        let outcome = outcome.clone();
        return without_configuration(state, outcome);
    }
    if state.view.load.is_none() {
        return blind(state);
    }
    if lacks(state) {
        state.keep_retiring();
        if lacks(state) {
            return grow(state, settings);
        }
        return Step::Keep(FunctionOutcome::Steady);
    }
    if !state.retiring.is_empty() {
        return replace(state, cluster);
    }
    if !state.outdated.is_empty() {
        return renew(state);
    }
    shrink(state)
}

/// Returns true if something must start, without counting retiring instances.
fn lacks(state: &State<'_>) -> bool {
    state.capacity() < state.needed() || state.active() < state.min()
}

/// Releases instances above a lowered maximum: outdated ones first, then retiring ones, failing
/// ones, those that start, then those with the lowest rate.
fn above_maximum(state: &mut State<'_>, surplus: usize) -> Step {
    let mut ready = state.least_loaded_first(&state.ready);
    ready.sort_by_key(|&at| state.rate(&[at]));
    let all = [
        &state.outdated,
        &state.retiring,
        &state.failing,
        &state.starting,
        &ready,
    ];
    let release: Vec<usize> = all.into_iter().flatten().copied().take(surplus).collect();
    let stay = |list: &[usize]| -> Vec<usize> {
        let stay = list.iter().filter(|at| !release.contains(at));
        stay.copied().collect()
    };
    let carried = state
        .rate(&stay(&state.ready))
        .plus(state.rate(&stay(&state.starting)));
    let uncovered = state.needed().minus(carried);
    let outcome = if uncovered.is_zero() {
        FunctionOutcome::ScaledIn {
            released: count(release.len()),
        }
    } else {
        FunctionOutcome::AtMaximum {
            max_instances: state.view.max_instances,
            uncovered,
        }
    };
    Step::Release(release, outcome)
}

/// Decides without a usable configuration: starts nothing, and releases instances after a window
/// without load.
fn without_configuration(state: &State<'_>, outcome: FunctionOutcome) -> Step {
    if state.peak() == Some(Rate::ZERO) && state.min() == 0 && !state.outdated.is_empty() {
        return Step::Release(bounded(state, state.outdated.clone()), outcome);
    }
    Step::Keep(outcome)
}

fn blind(state: &State<'_>) -> Step {
    let instances = state.min().saturating_sub(state.live());
    if instances == 0 {
        return Step::Keep(FunctionOutcome::LoadUnknown { started: 0 });
    }
    Step::Grow(Growth {
        instances,
        ..Growth::default()
    })
}

/// Starts missing instances; at the maximum, outdated instances make room.
fn grow(state: &State<'_>, settings: &Settings) -> Step {
    let capacity = state.capacity();
    let load = state.view.load.unwrap_or_default();
    let residual = state.needed().minus(capacity);
    // Start more than the bare minimum: leave as much headroom as a release would, and grow by a
    // part of what there is. Many small instances take more private memory than few large ones,
    // and their short queues make more requests late.
    let load = if residual.is_zero() {
        Rate::ZERO
    } else {
        let step = capacity
            .with_headroom(settings.growth_percent)
            .minus(capacity);
        state.view.scale_in.needed(load).minus(capacity).max(step)
    };
    let growth = Growth {
        load,
        least: residual,
        instances: state.min().saturating_sub(state.active()),
    };
    if state.live() < state.view.max_instances {
        return Step::Grow(growth);
    }
    if state.outdated.is_empty() {
        return Step::Keep(FunctionOutcome::AtMaximum {
            max_instances: state.view.max_instances,
            uncovered: residual,
        });
    }
    if !state.starting.is_empty() {
        return renew(state);
    }
    // Only a part at a time, as outdated instances may still serve.
    let part = state.outdated.len().div_ceil(PARTS);
    let order = state.least_loaded_first(&state.outdated);
    let release: Vec<usize> = order.into_iter().take(part).collect();
    let outcome = FunctionOutcome::MakingRoom {
        released: count(release.len()),
    };
    Step::Release(release, outcome)
}

/// Releases retiring instances once the others are ready and carry the peak. Ends the replacement if
/// an instance that starts has no room on any node: it would wait for ever, and so would the others.
fn replace(state: &mut State<'_>, cluster: &Cluster<'_>) -> Step {
    let waiting = FunctionOutcome::Consolidating {
        starting: count(state.starting.len()),
        retiring: count(state.retiring.len()),
    };
    let Some(peak) = state.peak() else {
        return Step::Keep(waiting);
    };
    let kept = state.view.scale_in.needed(peak);
    if state.capacity() < kept {
        state.keep_retiring();
        return Step::Keep(FunctionOutcome::Steady);
    }
    if state.starting.iter().any(|&at| !cluster.has_room_for(at)) {
        state.keep_retiring();
        return shrink(state);
    }
    if !state.starting.is_empty() {
        return Step::Keep(waiting);
    }
    let release = bounded(state, state.least_loaded_first(&state.retiring));
    let outcome = FunctionOutcome::ScaledIn {
        released: count(release.len()),
    };
    Step::Release(release, outcome)
}

/// Releases outdated instances once the others are ready and carry the load.
fn renew(state: &State<'_>) -> Step {
    let peak = state
        .peak()
        .unwrap_or_else(|| state.view.load.unwrap_or_default());
    let needed = state.view.scale_in.residual(peak, Rate::ZERO);
    let ready = count(state.ready.len());
    if state.rate(&state.ready) < needed || ready < state.min() {
        return Step::Keep(FunctionOutcome::Renewing {
            outdated: count(state.outdated.len()),
        });
    }
    let release = bounded(state, state.least_loaded_first(&state.outdated));
    let outcome = FunctionOutcome::ScaledIn {
        released: count(release.len()),
    };
    Step::Release(release, outcome)
}

/// Releases instances that are not ready if the ready ones carry the load, failing ones first, then
/// the least loaded ones.
fn shrink(state: &State<'_>) -> Step {
    let steady = Step::Keep(FunctionOutcome::Steady);
    let Some(peak) = state.peak() else {
        return steady;
    };
    if state.rate(&state.ready) < state.view.scale_in.needed(peak) {
        return steady;
    }
    // While fewer than the minimum are ready, failing ones stay: others would start in their place.
    let may_go = count(state.ready.len()) >= state.min();
    let failing = if may_go { &*state.failing } else { &[] };
    let spare = state.sound().saturating_sub(state.min()) as usize;
    let starting = state.starting.iter().take(spare);
    let not_ready = failing.iter().chain(starting).copied().collect();
    let mut release = bounded(state, not_ready);
    if release.len() == state.failing.len() + state.starting.len() {
        let most = most_releases(state).saturating_sub(count(release.len()));
        release.extend(least_loaded(state, peak, most));
    }
    if release.is_empty() {
        return steady;
    }
    let outcome = FunctionOutcome::ScaledIn {
        released: count(release.len()),
    };
    Step::Release(release, outcome)
}

/// Returns the ready instances that the peak does not need.
fn least_loaded(state: &State<'_>, peak: Rate, most: u32) -> Vec<usize> {
    let config = ScaleInConfig {
        min_instances: state.min(),
        max_releases: most,
        ..*state.view.scale_in.config()
    };
    // If `most` is zero, no more may be released.
    let Ok(policy) = ScaleInPolicy::try_new(config) else {
        return Vec::new();
    };
    let order = &state.ready;
    let running: Vec<Running> = order.iter().filter_map(|&at| running(state, at)).collect();
    let result = scale_in(&running, state.view.model.slo, Some(peak), &policy);
    let released = result.release.iter();
    released.filter_map(|&at| order.get(at).copied()).collect()
}

fn running(state: &State<'_>, at: usize) -> Option<Running> {
    let instance = state.instance(at)?;
    let all = state.view.model.profile.configurations();
    Some(Running {
        name: instance.name.clone(),
        configuration: *all.get(instance.configuration?)?,
        // An unknown load may be large.
        load: instance.load.unwrap_or(Rate::from_micro_rps(u64::MAX)),
    })
}

fn most_releases(state: &State<'_>) -> u32 {
    state.view.scale_in.config().max_releases
}

fn bounded(state: &State<'_>, mut release: Vec<usize>) -> Vec<usize> {
    release.truncate(most_releases(state) as usize);
    release
}
