//! Any bytes as the configuration of the gateway: no panic, and an error for a log.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::gateway_config;

fuzz_target!(|bytes: &[u8]| {
    let _judged = gateway_config::check(bytes);
});
