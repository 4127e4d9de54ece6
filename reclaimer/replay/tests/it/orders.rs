//! Every order and every rule of expiry is compared, and documented.

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

#[test]
fn every_order_and_expiry_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let text = std::fs::read_to_string(path).unwrap();
    // In the table of reasons, and as a value in the configuration.
    let names = Order::ALL.map(Order::name).into_iter();
    for name in names.chain(Expiry::ALL.map(Expiry::name)) {
        for form in [format!("`{name}`"), format!("\"{name}\"")] {
            assert!(text.contains(&form), "{path} does not have {form}");
        }
    }
}
