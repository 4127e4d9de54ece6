//! Any bytes as a safetensors file: no panic, and the same judgment as the reference
//! implementation's.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::safetensors_header;

fuzz_target!(|file: &[u8]| {
    let _ = safetensors_header::check(file);
});
