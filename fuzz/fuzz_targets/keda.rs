//! Any bytes as a call of KEDA: no panic, and an answer of gRPC whose message fits a header.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tetris_fuzz_checks::keda;

thread_local! {
    static SITE: keda::Site = keda::Site::default();
}

fuzz_target!(|input: &[u8]| {
    SITE.with(|site| {
        let _status = site.check(input);
        let _status = site.check(&keda::framed(input));
    });
});
