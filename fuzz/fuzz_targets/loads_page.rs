//! Any bytes as the page `/loads` of a gateway: no panic, and no more memory than its length allows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::loads_page;

fuzz_target!(|bytes: &[u8]| {
    let _judged = loads_page::check(bytes);
});
