//! Choice of engines to make room, and of engines to wake up.

use std::cmp::Reverse;

use super::engine::{Engine, EngineState};
use super::rules::GroupRules;

/// Engines, by their places in the group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Engines that wake up now.
    pub(super) wake: Vec<usize>,
    /// Engines that take no more requests, and sleep.
    pub(super) drain: Vec<usize>,
    /// Engines that no sleep of others makes room for.
    pub(super) hopeless: Vec<usize>,
}

/// Memory that wakes may take.
#[derive(Debug)]
struct Room {
    free: u64,
    /// Memory of engines that sleep in a moment.
    coming: u64,
}

/// Returns true if the engine is asleep and a request waits for it.
pub(super) fn is_wanted(engine: &Engine) -> bool {
    engine.state == EngineState::Asleep && !engine.waiting.is_empty()
}

/// Decides. `arrived` is the arrival of the oldest waiting request of an engine.
pub(super) fn plan(
    rules: &GroupRules,
    engines: &[Engine],
    now_us: u64,
    arrived: impl Fn(&Engine) -> u64,
) -> Plan {
    let mut plan = Plan::default();
    let sum = |of: &dyn Fn(&Engine) -> u64| engines.iter().map(of).fold(0, u64::saturating_add);
    let used = sum(&Engine::occupied);
    let stuck = sum(&|engine| {
        if engine.is_stuck() {
            engine.occupied()
        } else {
            0
        }
    });
    let leaving = sum(&|engine| match engine.state {
        EngineState::FallingAsleep | EngineState::Draining { cut: true, .. } => engine.difference(),
        _ => 0,
    });
    // Nothing sleeps for an engine that may turn out to sleep.
    let known = sum(&|engine| match engine.state {
        EngineState::Unknown => 0,
        _ if engine.is_stuck() => 0,
        _ => engine.occupied(),
    });
    let over = known.saturating_sub(rules.capacity);
    let mut room = Room {
        free: rules.capacity.saturating_sub(used),
        coming: leaving.saturating_sub(over),
    };
    // Engines may start awake, or be woken by others. One after the other: too few without requests are better than none.
    let mut beyond = over.saturating_sub(leaving);
    while beyond > 0
        && let Some(victims) = choose(rules, engines, &plan, 1, now_us, None)
    {
        let freed = victims.iter().filter_map(|&place| engines.get(place));
        let freed = freed.map(Engine::difference).fold(0, u64::saturating_add);
        beyond = beyond.saturating_sub(freed);
        plan.drain.extend(victims);
    }
    let mut targets: Vec<_> = engines.iter().enumerate().collect();
    targets.retain(|(_, engine)| is_wanted(engine) && now_us >= engine.no_wake_before_us);
    targets.sort_by_key(|(_, engine)| arrived(engine));
    for (place, engine) in targets {
        let need = engine.difference();
        let least = engines.iter().filter(|other| !other.is_stuck());
        let least = least.map(|other| other.rules.asleep.min(other.occupied()));
        let least = least.fold(stuck, u64::saturating_add).saturating_add(need);
        if least > rules.capacity {
            plan.hopeless.push(place);
        } else if need <= room.free {
            room.free = room.free.saturating_sub(need);
            plan.wake.push(place);
        } else {
            let short = need.saturating_sub(room.free).saturating_sub(room.coming);
            let victims = choose(rules, engines, &plan, short, now_us, Some(arrived(engine)));
            let Some(victims) = victims else {
                // Later ones must not take the room that this one waits for.
                break;
            };
            let freed = victims.iter().filter_map(|&place| engines.get(place));
            let freed = freed.map(Engine::difference).fold(0, u64::saturating_add);
            let all = room.free.saturating_add(room.coming).saturating_add(freed);
            room.free = 0;
            room.coming = all.saturating_sub(need);
            plan.drain.extend(victims);
        }
    }
    plan
}

/// Chooses engines whose sleep frees `short`: those that drain already, then those without requests from the least recently used
/// one on, then busy ones from the one that has been awake for longest on, if the request that arrived at `arrived_us` has
/// waited for its turn. `None` if there are too few.
fn choose(
    rules: &GroupRules,
    engines: &[Engine],
    plan: &Plan,
    short: u64,
    now_us: u64,
    arrived_us: Option<u64>,
) -> Option<Vec<usize>> {
    let is_turn = arrived_us.is_some_and(|at| now_us >= at.saturating_add(rules.turn_us));
    let rank = |engine: &Engine| match engine.state {
        EngineState::Draining { cut: false, .. } => Some((0, engine.since_us)),
        EngineState::Awake if now_us >= engine.resident_until_us(rules.residence_us) => {
            if engine.is_idle() {
                Some((1, Some(engine.used_us)))
            } else {
                is_turn.then_some((2, engine.since_us))
            }
        }
        _ => None,
    };
    let mut candidates: Vec<_> = engines
        .iter()
        .enumerate()
        .filter(|(place, engine)| !plan.drain.contains(place) && engine.difference() > 0)
        .filter_map(|(place, engine)| Some((rank(engine)?, place, engine.difference())))
        .collect();
    candidates.sort_unstable();
    let mut freed: u64 = 0;
    let mut chosen = Vec::new();
    for candidate in candidates {
        if freed >= short {
            break;
        }
        freed = freed.saturating_add(candidate.2);
        chosen.push(candidate);
    }
    if freed < short {
        return None;
    }
    // The last ones may have made others superfluous: those used last stay.
    chosen.sort_unstable_by_key(|&(rank, ..)| Reverse(rank));
    chosen.retain(|&(_, _, difference)| {
        let is_needed = freed.saturating_sub(difference) < short;
        if !is_needed {
            freed = freed.saturating_sub(difference);
        }
        is_needed
    });
    Some(chosen.into_iter().map(|(_, place, _)| place).collect())
}
