//! Any bytes as the inventory of a node, also compressed: no panic, and limits that hold.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::inventory_page;

fuzz_target!(|bytes: &[u8]| {
    let _judged = inventory_page::check(bytes);
});
