//! Any bytes as a safetensors file: no panic, and the same judgment as the reference
//! implementation's.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/header.rs"]
mod check;
#[path = "../heap.rs"]
mod heap;

fuzz_target!(|file: &[u8]| {
    let _ = check::check(file);
});
