//! Any bytes in the small files of a store: no panic, and an accepted file has exactly the encoding
//! it was read from.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::store_files;

thread_local! {
    static SITE: store_files::Site = store_files::Site::default();
}

fuzz_target!(|input: &[u8]| {
    SITE.with(|site| {
        let _judged = site.check(input);
        let _judged = site.check(&store_files::repaired(input));
    });
});
