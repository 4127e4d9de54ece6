//! Any session with the GPU mirror: no panic, nothing is left of it, and others are served.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;

#[path = "../checks/mirror_session.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod mirror_session;
#[path = "../checks/session.rs"]
#[allow(dead_code, reason = "seeds name the steps")]
mod session;

/// Longest wait for a silent server. Tests wait for what comes.
const SHORTLY: Duration = Duration::from_millis(60);

thread_local! {
    static SITE: mirror_session::Site = mirror_session::Site::new(SHORTLY);
}

fuzz_target!(|input: &[u8]| {
    SITE.with(|site| {
        let _fine = site.check(input);
    });
});
