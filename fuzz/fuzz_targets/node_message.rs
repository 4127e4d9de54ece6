//! Any bytes as a message between the processes of the node daemon: no panic, and the same message when it is
//! written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::node_message;

fuzz_target!(|bytes: &[u8]| {
    let _judged = node_message::check(bytes);
});
