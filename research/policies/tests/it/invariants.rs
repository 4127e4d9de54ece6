//! Invariants under any sequence of events.

use proptest::prelude::*;
use tetris_gpu_policies::{LALB, LALBO3, LocalityAware, TorporPrototype, TorporRules};
use tetris_test_support::gpu_invariants::{
    events, every_request_ends_once, no_gpu_is_idle_in_vain, overtaking_stays_within,
};

fn torpor() -> [TorporRules; 3] {
    let whole = TorporRules::default();
    [
        whole,
        TorporRules {
            rejects_late: true,
            ..whole
        },
        TorporRules {
            by_required_count: false,
            avoids_interference: false,
            evicts_light_first: false,
            ..whole
        },
    ]
}

proptest! {
    #[test]
    fn every_request_is_served_once_within_the_memory_of_its_gpu(events in events()) {
        for policy in [LALB, LocalityAware { overtaking_limit: 3 }, LALBO3] {
            every_request_ends_once(policy, &events);
        }
        for policy in torpor() {
            every_request_ends_once(policy, &events);
            every_request_ends_once(TorporPrototype::new(policy), &events);
        }
    }

    #[test]
    fn no_request_is_overtaken_more_often_than_the_limit(events in events(), limit in 0..6_u32) {
        overtaking_stays_within(limit, LocalityAware { overtaking_limit: limit }, &events);
    }

    #[test]
    fn no_gpu_is_idle_while_a_request_is_bound_to_none(events in events()) {
        no_gpu_is_idle_in_vain(LALB, &events);
        no_gpu_is_idle_in_vain(LALBO3, &events);
    }
}
