//! Tests of groups of engines.

mod by_hand;
mod invariants;

use tetris_scaler_dispatch::engines::{
    Action, EngineGroup, EngineId, EngineRules, Finding, GroupRules,
};

pub const SECOND: u64 = 1_000_000;

/// Rules with times that tests can tell apart.
pub fn rules(capacity: u64) -> GroupRules {
    GroupRules {
        capacity,
        queue: 4,
        residence_us: 10 * SECOND,
        turn_us: 3 * SECOND,
        drain_us: 20 * SECOND,
        cut_us: SECOND,
        idle_us: None,
    }
}

/// Engines that take one unit of memory each.
pub fn engines(count: usize, capacity: u64) -> EngineGroup {
    with(rules(capacity), &vec![(1, 0); count])
}

/// Engines with their memory awake and asleep.
pub fn with(rules: GroupRules, memory: &[(u64, u64)]) -> EngineGroup {
    let engines = memory.iter().map(|&(awake, asleep)| EngineRules {
        awake,
        asleep,
        requests: 8,
    });
    EngineGroup::new(rules, engines)
}

/// Passes on an engine's answer.
pub fn tell(group: &mut EngineGroup, now_us: u64, engine: usize, finding: Finding) {
    let question = group.question(EngineId(engine)).unwrap();
    group.learned(now_us, EngineId(engine), question, finding);
}

/// Orders among actions, as engines with the names of orders.
pub fn orders(actions: &[Action]) -> Vec<(&'static str, usize)> {
    let orders = actions.iter().filter_map(|action| match action {
        Action::Sleep(engine) => Some(("sleep", engine.0)),
        Action::Wake(engine) => Some(("wake", engine.0)),
        _ => None,
    });
    orders.collect()
}

/// Engines of dispatched requests.
pub fn dispatched(actions: &[Action]) -> Vec<usize> {
    let engines = actions.iter().filter_map(|action| match action {
        Action::Dispatch { engine, .. } => Some(engine.0),
        _ => None,
    });
    engines.collect()
}
