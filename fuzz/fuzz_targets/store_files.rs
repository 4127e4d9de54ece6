//! Any bytes in the small files of a store: no panic, and an accepted file has exactly the encoding
//! it was read from.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/store_files.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;

thread_local! {
    static SITE: check::Site = check::Site::new();
}

fuzz_target!(|input: &[u8]| {
    SITE.with(|site| {
        let _judged = site.check(input);
        let _judged = site.check(&check::repaired(input));
    });
});
