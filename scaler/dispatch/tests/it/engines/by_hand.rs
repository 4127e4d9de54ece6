//! Decisions that can be checked by hand.

use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::engines::{
    Action, EngineGroup, EngineId, EngineRejection, EngineState, Finding, GroupRules,
};

use super::{SECOND, dispatched, engines, orders, rules, tell, with};

/// Two engines in room for one: the first is awake, the second sleeps.
fn pair() -> EngineGroup {
    let mut group = engines(2, 1);
    tell(&mut group, 0, 0, Finding::Awake);
    tell(&mut group, 0, 1, Finding::Asleep);
    group
}

/// A pair whose first engine has woken at `now_us` for a request, which runs.
fn resident(now_us: u64) -> (EngineGroup, RequestId) {
    let mut group = engines(2, 1);
    tell(&mut group, 0, 0, Finding::Asleep);
    tell(&mut group, 0, 1, Finding::Asleep);
    let running = group.offer(now_us, EngineId(0)).unwrap();
    assert_eq!(orders(&group.pump(now_us)), [("wake", 0)]);
    group.woke(now_us, EngineId(0), true);
    assert_eq!(dispatched(&group.pump(now_us)), [0]);
    (group, running)
}

fn refusals(actions: &[Action]) -> Vec<EngineRejection> {
    let refused = actions.iter().filter_map(|action| match action {
        Action::Refuse { rejection, .. } => Some(*rejection),
        _ => None,
    });
    refused.collect()
}

#[test]
fn nothing_moves_before_the_engines_are_known_and_without_requests() {
    let mut group = engines(2, 1);
    group.offer(0, EngineId(1)).unwrap();
    assert_eq!(group.pump(0), []);
    tell(&mut group, 0, 0, Finding::Asleep);
    assert_eq!(group.pump(0), []);
    let mut idle = pair();
    assert_eq!(idle.pump(1_000 * SECOND), []);
    assert_eq!(idle.next_us(0), None);
}

#[test]
fn several_requests_cause_one_wake_after_the_idle_engine_sleeps() {
    let mut group = pair();
    for _ in 0..3 {
        group.offer(SECOND, EngineId(1)).unwrap();
    }
    assert_eq!(orders(&group.pump(SECOND)), [("sleep", 0)]);
    assert_eq!(group.pump(SECOND), []);
    group.slept(2 * SECOND, EngineId(0), true);
    assert_eq!(orders(&group.pump(2 * SECOND)), [("wake", 1)]);
    assert_eq!(group.pump(2 * SECOND), []);
    group.woke(3 * SECOND, EngineId(1), true);
    assert_eq!(dispatched(&group.pump(3 * SECOND)), [1, 1, 1]);
}

#[test]
fn an_idle_engine_makes_room_only_after_its_residence() {
    let (mut group, running) = resident(0);
    group.complete(SECOND, running);
    group.offer(SECOND, EngineId(1)).unwrap();
    assert_eq!(group.pump(SECOND), []);
    assert_eq!(group.next_us(4 * SECOND), Some(10 * SECOND));
    assert_eq!(orders(&group.pump(10 * SECOND)), [("sleep", 0)]);
}

#[test]
fn a_busy_engine_makes_room_for_a_request_whose_turn_it_is() {
    let (mut group, running) = resident(0);
    group.offer(9 * SECOND, EngineId(1)).unwrap();
    assert_eq!(group.pump(11 * SECOND), []);
    assert_eq!(group.next_us(11 * SECOND), Some(12 * SECOND));
    group.pump(12 * SECOND);
    let state = group.state(EngineId(0)).unwrap();
    assert!(matches!(state, EngineState::Draining { cut: false, .. }));
    // Its own requests wait now, and go on after the other engine's residence.
    group.offer(12 * SECOND, EngineId(0)).unwrap();
    assert_eq!(group.pump(12 * SECOND), []);
    group.complete(13 * SECOND, running);
    assert_eq!(orders(&group.pump(13 * SECOND)), [("sleep", 0)]);
    group.slept(13 * SECOND, EngineId(0), true);
    assert_eq!(orders(&group.pump(13 * SECOND)), [("wake", 1)]);
    group.woke(14 * SECOND, EngineId(1), true);
    assert_eq!(dispatched(&group.pump(14 * SECOND)), [1]);
    assert_eq!(group.pump(23 * SECOND), []);
    group.pump(24 * SECOND);
    let state = group.state(EngineId(1)).unwrap();
    assert!(matches!(state, EngineState::Draining { .. }));
}

#[test]
fn a_client_that_leaves_takes_its_wake_with_it() {
    let (mut group, _running) = resident(0);
    let waiting = group.offer(0, EngineId(1)).unwrap();
    group.pump(20 * SECOND);
    let state = group.state(EngineId(0)).unwrap();
    assert!(matches!(state, EngineState::Draining { .. }));
    group.complete(21 * SECOND, waiting);
    assert_eq!(group.waiting(), 0);
    assert_eq!(group.pump(21 * SECOND), []);
    assert_eq!(group.state(EngineId(0)), Some(EngineState::Awake));
}

#[test]
fn a_request_that_never_ends_is_cut_off_and_the_engine_sleeps_all_the_same() {
    let (mut group, running) = resident(0);
    group.offer(0, EngineId(1)).unwrap();
    group.pump(10 * SECOND);
    assert_eq!(group.next_us(10 * SECOND), Some(30 * SECOND));
    let cut = Action::Cut { request: running };
    assert_eq!(group.pump(30 * SECOND), [cut]);
    assert_eq!(group.pump(30 * SECOND), []);
    assert_eq!(orders(&group.pump(31 * SECOND)), [("sleep", 0)]);
}

#[test]
fn a_full_queue_refuses_but_an_awake_engine_still_serves() {
    let mut group = pair();
    for _ in 0..4 {
        group.offer(0, EngineId(1)).unwrap();
    }
    let full = Err(EngineRejection::Full { waiting: 4 });
    assert_eq!(group.offer(0, EngineId(1)), full);
    let mut busy = engines(2, 2);
    tell(&mut busy, 0, 0, Finding::Awake);
    for _ in 0..4 {
        busy.offer(0, EngineId(1)).unwrap();
    }
    busy.offer(0, EngineId(0)).unwrap();
    assert_eq!(dispatched(&busy.pump(0)), [0]);
}

#[test]
fn a_wake_that_fails_refuses_its_requests_and_pauses_ever_longer() {
    let mut group = engines(2, 2);
    tell(&mut group, 0, 0, Finding::Awake);
    tell(&mut group, 0, 1, Finding::Asleep);
    let mut now_us = SECOND;
    for pause in [SECOND, 2 * SECOND, 4 * SECOND] {
        group.offer(now_us, EngineId(1)).unwrap();
        assert_eq!(orders(&group.pump(now_us)), [("wake", 1)]);
        group.woke(now_us, EngineId(1), false);
        let rejection = EngineRejection::WakeFailed { retry_us: pause };
        assert_eq!(refusals(&group.pump(now_us)), [rejection]);
        tell(&mut group, now_us, 1, Finding::Asleep);
        assert_eq!(group.offer(now_us, EngineId(1)), Err(rejection));
        // The other engine is undisturbed.
        let other = group.offer(now_us, EngineId(0)).unwrap();
        assert_eq!(dispatched(&group.pump(now_us)), [0]);
        group.complete(now_us, other);
        now_us += pause;
    }
}

#[test]
fn an_engine_that_does_not_fall_asleep_leaves_the_room_to_others() {
    let mut group = engines(3, 2);
    tell(&mut group, 0, 0, Finding::Awake);
    tell(&mut group, 0, 1, Finding::Awake);
    tell(&mut group, 0, 2, Finding::Asleep);
    let used = group.offer(1, EngineId(1)).unwrap();
    group.pump(1);
    group.complete(2, used);
    group.offer(SECOND, EngineId(2)).unwrap();
    assert_eq!(orders(&group.pump(SECOND)), [("sleep", 0)]);
    group.slept(31 * SECOND, EngineId(0), false);
    tell(&mut group, 31 * SECOND, 0, Finding::Awake);
    assert_eq!(orders(&group.pump(31 * SECOND)), [("sleep", 1)]);
}

#[test]
fn a_killed_engine_frees_its_memory_and_refuses_its_requests() {
    let mut group = pair();
    group.offer(SECOND, EngineId(1)).unwrap();
    group.pump(SECOND);
    group.slept(SECOND, EngineId(0), true);
    group.pump(SECOND);
    // Killed while it wakes.
    group.woke(2 * SECOND, EngineId(1), false);
    assert_eq!(refusals(&group.pump(2 * SECOND)).len(), 1);
    tell(&mut group, 2 * SECOND, 1, Finding::NoProcess);
    let gone = Err(EngineRejection::Unreachable);
    assert_eq!(group.offer(2 * SECOND, EngineId(1)), gone);
    assert_eq!(group.used(), 0);
    group.offer(2 * SECOND, EngineId(0)).unwrap();
    assert_eq!(orders(&group.pump(2 * SECOND)), [("wake", 0)]);
}

#[test]
fn an_engine_without_the_paths_keeps_its_memory_and_others_are_refused_at_once() {
    let mut group = pair();
    tell(&mut group, 0, 0, Finding::NoPaths);
    assert_eq!(group.offer(0, EngineId(0)), Err(EngineRejection::NoPaths));
    group.offer(0, EngineId(1)).unwrap();
    assert_eq!(refusals(&group.pump(0)), [EngineRejection::NoRoom]);
}

#[test]
fn one_slow_answer_of_a_busy_engine_is_no_silence() {
    let mut group = pair();
    for _ in 0..2 {
        tell(&mut group, 0, 0, Finding::Silent);
        assert_eq!(group.state(EngineId(0)), Some(EngineState::Awake));
    }
    tell(&mut group, 0, 0, Finding::Silent);
    let silent = EngineState::Silent { awake: true };
    assert_eq!(group.state(EngineId(0)), Some(silent));
}

#[test]
fn engines_that_fit_wake_at_once_and_the_last_used_ones_stay() {
    // 80 units: 60 are taken, and the third engine needs 35 beside its 5.
    let memory = [(30, 2), (30, 2), (40, 5), (15, 1)];
    let mut group = with(rules(75), &memory);
    tell(&mut group, 0, 0, Finding::Awake);
    for asleep in 1..4 {
        tell(&mut group, 0, asleep, Finding::Asleep);
    }
    group.offer(0, EngineId(1)).unwrap();
    group.offer(0, EngineId(3)).unwrap();
    // 30 + 2 + 5 + 1 are taken: the second engine needs 28 more, and then 14 do not fit.
    assert_eq!(orders(&group.pump(0)), [("sleep", 0), ("wake", 1)]);
    group.slept(0, EngineId(0), true);
    assert_eq!(orders(&group.pump(0)), [("wake", 3)]);
    assert!(group.used() <= 75);
}

#[test]
fn a_later_request_for_a_small_engine_does_not_take_the_room_of_an_older_one() {
    let memory = [(40, 0), (80, 0), (40, 0)];
    let mut group = with(rules(80), &memory);
    tell(&mut group, 0, 0, Finding::Awake);
    tell(&mut group, 0, 1, Finding::Asleep);
    tell(&mut group, 0, 2, Finding::Asleep);
    group.offer(0, EngineId(0)).unwrap();
    group.pump(0);
    group.offer(SECOND, EngineId(1)).unwrap();
    group.offer(2 * SECOND, EngineId(2)).unwrap();
    assert_eq!(group.pump(2 * SECOND), []);
}

#[test]
fn engines_awake_beyond_the_room_sleep_once_they_are_idle() {
    let mut group = engines(3, 2);
    tell(&mut group, 0, 0, Finding::Awake);
    tell(&mut group, 0, 1, Finding::Awake);
    group.offer(1, EngineId(0)).unwrap();
    // The third one may sleep.
    assert_eq!(orders(&group.pump(1)), []);
    tell(&mut group, 20 * SECOND, 2, Finding::Awake);
    assert_eq!(orders(&group.pump(20 * SECOND)), [("sleep", 1)]);
}

#[test]
fn an_idle_engine_beyond_the_room_sleeps_even_if_busy_ones_still_exceed_it() {
    let mut group = engines(3, 1);
    for engine in 0..3 {
        tell(&mut group, 0, engine, Finding::Awake);
    }
    let first = group.offer(0, EngineId(0)).unwrap();
    group.offer(0, EngineId(2)).unwrap();
    let actions = group.pump(0);
    assert_eq!(
        (dispatched(&actions), orders(&actions)),
        (vec![0, 2], vec![("sleep", 1)])
    );
    group.slept(0, EngineId(1), true);
    group.complete(SECOND, first);
    assert_eq!(orders(&group.pump(SECOND)), [("sleep", 0)]);
}

#[test]
fn an_engine_sleeps_after_its_idle_time() {
    let idle = GroupRules {
        idle_us: Some(60 * SECOND),
        ..rules(1)
    };
    let mut group = with(idle, &[(1, 0)]);
    tell(&mut group, 0, 0, Finding::Awake);
    assert_eq!(group.next_us(0), Some(60 * SECOND));
    assert_eq!(group.pump(59 * SECOND), []);
    assert_eq!(orders(&group.pump(60 * SECOND)), [("sleep", 0)]);
}

#[test]
fn an_answer_from_before_an_order_does_not_count() {
    let mut group = pair();
    let before = group.question(EngineId(0)).unwrap();
    group.offer(0, EngineId(1)).unwrap();
    group.pump(0);
    assert_eq!(group.question(EngineId(0)), None);
    group.slept(0, EngineId(0), true);
    group.learned(0, EngineId(0), before, Finding::Awake);
    assert_eq!(group.state(EngineId(0)), Some(EngineState::Asleep));
}

#[test]
fn a_request_given_back_is_the_first_once_its_engine_is_known_again() {
    let mut group = pair();
    let first = group.offer(0, EngineId(0)).unwrap();
    group.pump(0);
    group.give_back(first);
    group.offer(1, EngineId(0)).unwrap();
    assert_eq!(group.pump(1), []);
    tell(&mut group, 1, 0, Finding::Awake);
    let actions = group.pump(1);
    assert!(
        matches!(actions[0], Action::Dispatch { request, .. } if request == first),
        "{actions:?}"
    );
}
