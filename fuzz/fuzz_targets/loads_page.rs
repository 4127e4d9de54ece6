//! Any bytes as the page `/loads` of a gateway: no panic, and no more memory than its length allows.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/loads_page.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
