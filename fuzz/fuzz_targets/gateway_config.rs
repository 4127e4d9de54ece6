//! Any bytes as the configuration of the gateway: no panic, and an error for a log.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/gateway_config.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
