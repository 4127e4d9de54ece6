//! Any bytes as the table of a layout: no panic, and an accepted table has exactly the encoding it was read
//! from and takes no more memory than its length allows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::layout_table;

fuzz_target!(|bytes: &[u8]| {
    let _judged = layout_table::check(bytes);
});
