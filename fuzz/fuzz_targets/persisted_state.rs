//! Any bytes as the node daemon's persisted state: no panic, neither in reading nor in plans with
//! it, and the same state when it is written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::persisted_state;

thread_local! {
    static SITE: persisted_state::Site = persisted_state::Site::default();
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with(|site| {
        let _read = site.check(bytes);
    });
});
