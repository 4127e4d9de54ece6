//! Any bytes as an answer of Prometheus: no panic, and a load, latency or error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::prometheus_answer;

fuzz_target!(|bytes: &[u8]| {
    let _judged = prometheus_answer::check(bytes);
});
