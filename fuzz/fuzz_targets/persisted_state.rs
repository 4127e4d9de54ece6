//! Any bytes as the node daemon's persisted state: no panic, neither in reading nor in plans with
//! it, and the same state when it is written again.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/persisted_state.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod persisted_state;

thread_local! {
    static SITE: persisted_state::Site = persisted_state::Site::new();
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with(|site| {
        let _read = site.check(bytes);
    });
});
