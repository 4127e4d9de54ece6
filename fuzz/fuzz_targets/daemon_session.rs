//! Any session with the node daemon: no panic, nothing is left of it, and others are served.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;

#[path = "../checks/daemon_session.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod daemon_session;
#[path = "../checks/session.rs"]
#[allow(dead_code, reason = "seeds name the steps")]
mod session;

/// Longest wait for a silent server. Tests wait for what comes.
const SHORTLY: Duration = Duration::from_millis(60);

thread_local! {
    static SITE: daemon_session::Site = daemon_session::Site::new(SHORTLY);
}

fuzz_target!(|input: &[u8]| {
    SITE.with(|site| {
        let _fine = site.check(input);
    });
});
