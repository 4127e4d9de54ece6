//! Any bytes as a manifest: no panic, and what is accepted has exactly the encoding it was read
//! from.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::{manifest, manifest_repair};

fuzz_target!(|bytes: &[u8]| {
    let _ = manifest::check(bytes);
    let _ = manifest::check(&manifest_repair::repaired(bytes));
});
