//! Any bytes as a call of KEDA: no panic, and an answer of gRPC whose message fits a header.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../checks/keda.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod keda_check;
#[path = "../../scaler/tests/it/snapshot.rs"]
mod snapshot;

thread_local! {
    static SITE: keda_check::Site = {
        let mut made = snapshot::snapshot(&[("bert", "External"), ("own", "Operator")]);
        snapshot::decide(&mut made, "bert", 1, 2);
        keda_check::Site::new(made)
    };
}

fuzz_target!(|input: &[u8]| {
    SITE.with(|site| {
        let _status = site.check(input);
        let _status = site.check(&keda_check::framed(input));
    });
});
