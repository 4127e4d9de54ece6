//! Any bytes as a request of the API server: no panic, and every answer is one that the server can
//! apply, and applies once.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/admission_review.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;

fuzz_target!(|input: &[u8]| {
    let _outcome = check::check(input);
    let _outcome = check::check(&check::of_pod(input));
});
