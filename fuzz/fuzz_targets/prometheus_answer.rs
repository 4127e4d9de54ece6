//! Any bytes as an answer of Prometheus: no panic, and a load, latency or error.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/prometheus_answer.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
