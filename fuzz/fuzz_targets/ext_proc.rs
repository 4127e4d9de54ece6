//! Any bytes as a message of a data plane: no panic, the same message when it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/ext_proc.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
