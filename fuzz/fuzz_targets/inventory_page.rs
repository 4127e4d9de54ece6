//! Any bytes as the inventory of a node, also compressed: no panic, and limits that hold.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/inventory_page.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
