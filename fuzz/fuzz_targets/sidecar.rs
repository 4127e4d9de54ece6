//! Any bytes in a sidecar: no panic, and a valid one is that which is written for its manifest.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/manifest_repair.rs"]
mod manifest_repair;
#[path = "../checks/sidecar.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod sidecar;

thread_local! {
    static SITE: sidecar::Site = sidecar::Site::new();
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with(|site| {
        let _valid = site.check(bytes);
        let _valid = site.check(&sidecar::repaired(bytes));
    });
});
