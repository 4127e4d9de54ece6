//! Every order and every rule of expiry is compared.

use tetris_reclaimer_core::{Expiry, Order};
use tetris_reclaimer_replay::compare::candidates;

#[test]
fn every_order_and_expiry_is_compared() {
    let candidates = candidates();
    for order in Order::ALL {
        assert!(
            candidates.iter().any(|found| found.policy.order == order),
            "no candidate in replay/src/compare.rs has the order `{}`",
            order.name()
        );
    }
    for expiry in Expiry::ALL {
        assert!(
            candidates.iter().any(|found| found.policy.expiry == expiry),
            "no candidate in replay/src/compare.rs has the expiry `{}`",
            expiry.name()
        );
    }
}
