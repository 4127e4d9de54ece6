//! Any bytes as the page `/v2/gpu` of an executor: no panic, and no more memory than its length allows.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/gpu_page.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
