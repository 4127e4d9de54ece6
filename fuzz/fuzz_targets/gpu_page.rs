//! Any bytes as the page `/v2/gpu` of an executor: no panic, and no more memory than its length allows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::gpu_page;

fuzz_target!(|bytes: &[u8]| {
    let _judged = gpu_page::check(bytes);
});
