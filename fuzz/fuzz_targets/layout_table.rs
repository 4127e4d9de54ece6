//! Any bytes as the table of a layout: no panic, and an accepted table has exactly the encoding it was read
//! from and takes no more memory than its length allows.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/layout_table.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|bytes: &[u8]| {
    let _judged = check::check(bytes);
});
