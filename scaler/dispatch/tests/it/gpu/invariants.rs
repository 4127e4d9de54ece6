//! Invariants under any sequence of events.

use proptest::prelude::*;
use tetris_scaler_dispatch::gpu::{LoadBalancing, SharingRules};
use tetris_test_support::gpu_invariants::{
    events, every_request_ends_once, no_gpu_is_idle_in_vain, overtaking_stays_within,
};

fn sharing(overtaking_limit: u32) -> SharingRules {
    SharingRules {
        overtaking_limit,
        ..SharingRules::default()
    }
}

proptest! {
    #[test]
    fn every_request_is_served_once_within_the_memory_of_its_gpu(events in events()) {
        every_request_ends_once(LoadBalancing, &events);
        every_request_ends_once(SharingRules::default(), &events);
        every_request_ends_once(SharingRules { rejects_late: false, ..sharing(2) }, &events);
    }

    #[test]
    fn no_request_is_overtaken_more_often_than_the_limit(events in events(), limit in 0..6_u32) {
        overtaking_stays_within(limit, sharing(limit), &events);
    }

    #[test]
    fn no_gpu_is_idle_while_a_request_is_bound_to_none(events in events()) {
        no_gpu_is_idle_in_vain(LoadBalancing, &events);
    }
}
