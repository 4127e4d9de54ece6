//! Any bytes in a sidecar: no panic, and a valid one is that which is written for its manifest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::sidecar;

thread_local! {
    static SITE: sidecar::Site = sidecar::Site::default();
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with(|site| {
        let _valid = site.check(bytes);
        let _valid = site.check(&sidecar::repaired(bytes));
    });
});
