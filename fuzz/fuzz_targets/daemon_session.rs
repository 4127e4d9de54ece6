//! Any session with the node daemon: no panic, nothing is left of it, and others are served.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::daemon_session;

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
