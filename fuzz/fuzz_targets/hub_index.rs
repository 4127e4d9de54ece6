//! Any bytes in the index of a model: no panic, and no file outside of its folder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::hub_index;

thread_local! {
    static SITE: hub_index::Site = hub_index::Site::default();
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with(|site| {
        let _layout = site.check(bytes);
    });
});
