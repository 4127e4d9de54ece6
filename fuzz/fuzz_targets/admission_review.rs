//! Any bytes as a request of the API server: no panic, and every answer is one that the server can
//! apply, and applies once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::admission_review;

fuzz_target!(|input: &[u8]| {
    let _outcome = admission_review::check(input);
    let _outcome = admission_review::check(&admission_review::of_pod(input));
});
