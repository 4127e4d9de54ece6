//! Any bytes as a request of kube-scheduler: no panic, and each node has a score and passes or
//! fails.

#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

#[path = "../checks/extender.rs"]
#[allow(dead_code, reason = "the seeds and the tests use more of it")]
mod check;
#[path = "../../scaler/tests/it/extender/cluster.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod cluster;
#[path = "../../scaler/tests/it/snapshot.rs"]
mod snapshot;

thread_local! {
    static RUNTIME: LazyCell<Runtime> = LazyCell::new(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    });
    static EXTENDER: axum::Router = cluster::extender(cluster::cluster());
}

fuzz_target!(|body: &[u8]| {
    let router = EXTENDER.with(Clone::clone);
    let _understood = check::check(body, |path, body| {
        let answer = cluster::post(router.clone(), path, body.to_vec());
        let (status, text) = RUNTIME.with(|runtime| runtime.block_on(answer));
        (status.as_u16(), text)
    });
});
