//! The wait of batches to be filled, which is no part of an instance's speed.

use tetris_scaler_core::Slo;
use tetris_scaler_dispatch::{Capacity, Dispatcher, InstanceId, Outcome, RequestId, Rules};

const MS: u64 = 1_000;

/// A dispatcher with an instance that takes 50 ms for up to two requests, and waits 100 ms for the second.
fn dispatcher() -> Dispatcher {
    let mut dispatcher = Dispatcher::new(Rules::new(Slo::try_from_us(200 * MS).unwrap()));
    let capacity = Capacity {
        batch: 2,
        concurrency: 1,
        latency_us: 50 * MS,
        batch_wait_us: 100 * MS,
        rate: None,
    };
    dispatcher.add_instance(0, InstanceId(1), capacity);
    dispatcher
}

fn give(dispatcher: &mut Dispatcher, now_us: u64, id: u64) {
    dispatcher.offer(now_us, RequestId(id), None).unwrap();
    assert!(dispatcher.dispatch(now_us).is_some());
}

fn slowdown(dispatcher: &Dispatcher) -> u64 {
    dispatcher.instances().next().unwrap().slowdown_permille
}

#[test]
fn a_request_without_others_waits_for_the_whole_time() {
    let mut alone = dispatcher();
    for (id, begin_ms) in (0..20).zip((0..).step_by(1_000)) {
        give(&mut alone, begin_ms * MS, id);
        let end_us = (begin_ms + 150) * MS;
        let filling_us = alone.complete(end_us, RequestId(id), Outcome::Served);
        assert_eq!(filling_us, 100 * MS);
    }
    assert_eq!(slowdown(&alone), 1_000);
}

#[test]
fn a_full_batch_begins_with_its_last_request() {
    let mut pairs = dispatcher();
    give(&mut pairs, 0, 0);
    give(&mut pairs, 30 * MS, 1);
    let ends = [0, 1].map(|id| pairs.complete(80 * MS, RequestId(id), Outcome::Served));
    assert_eq!(ends, [30 * MS, 0]);
    assert_eq!(slowdown(&pairs), 1_000);
}

#[test]
fn an_instance_that_is_slow_is_known_though_its_batches_fill_early() {
    let mut slow = dispatcher();
    for (round, begin_ms) in (0..20).zip((0..).step_by(1_000)) {
        give(&mut slow, begin_ms * MS, 2 * round);
        give(&mut slow, (begin_ms + 10) * MS, 2 * round + 1);
        for id in [2 * round, 2 * round + 1] {
            // Within the profiled latency and the longest wait.
            slow.complete((begin_ms + 110) * MS, RequestId(id), Outcome::Served);
        }
    }
    assert!(slowdown(&slow) > 1_800, "{}", slowdown(&slow));
}

#[test]
fn a_failure_has_waited_for_nothing() {
    let mut failing = dispatcher();
    give(&mut failing, 0, 0);
    assert_eq!(failing.complete(150 * MS, RequestId(0), Outcome::Failed), 0);
    assert_eq!(failing.complete(150 * MS, RequestId(7), Outcome::Served), 0);
}
