//! Any bytes as a manifest: no panic, and what is accepted has exactly the encoding it was read
//! from.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/manifest.rs"]
mod check;
#[path = "../checks/manifest_repair.rs"]
mod repair;

fuzz_target!(|bytes: &[u8]| {
    let _ = check::check(bytes);
    let _ = check::check(&repair::repaired(bytes));
});
