//! Any bytes from a socket, in any pieces: no panic, and an accepted message encodes to the bytes
//! it came in.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/wire.rs"]
mod check;

fuzz_target!(|input: &[u8]| {
    let _ = check::check(input);
    let _ = check::check(&check::repaired(input));
});
