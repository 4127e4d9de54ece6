//! Any bytes as a message of a data plane: no panic, the same message when it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::ext_proc;

fuzz_target!(|bytes: &[u8]| {
    let _judged = ext_proc::check(bytes);
});
