//! Any bytes from a socket, in any pieces: no panic, and an accepted message encodes to the bytes
//! it came in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::wire;

fuzz_target!(|input: &[u8]| {
    let _ = wire::check(input);
    let _ = wire::check(&wire::repaired(input));
});
