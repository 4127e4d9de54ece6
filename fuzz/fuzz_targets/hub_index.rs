//! Any bytes in the index of a model: no panic, and no file outside of its folder.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/hub_index.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod hub_index;

thread_local! {
    static SITE: hub_index::Site = hub_index::Site::new();
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with(|site| {
        let _layout = site.check(bytes);
    });
});
