//! Every order and every rule of expiry is documented.

use tetris_reclaimer_core::{Expiry, Order};

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
