//! Every committed seed of the fuzz targets `extender` and `keda`, through the check that the target
//! runs, without a fuzzer.

use tokio::runtime::Builder;

use crate::extender::cluster;
use crate::replay::replay;
use crate::{extender_check, extender_seeds, keda_check, keda_seeds, snapshot};

#[test]
fn requests_of_the_scheduler_are_judged_as_their_names_say() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let router = cluster::extender(cluster::cluster());
    replay("extender", &extender_seeds::seeds(), |body| {
        extender_check::check(body, |path, body| {
            let answer = cluster::post(router.clone(), path, body.to_vec());
            let (status, text) = runtime.block_on(answer);
            (status.as_u16(), text)
        })
    });
}

#[test]
fn calls_of_keda_are_judged_as_their_names_say() {
    let mut made = snapshot::snapshot(&[("bert", "External"), ("own", "Operator")]);
    snapshot::decide(&mut made, "bert", 1, 2);
    let site = keda_check::Site::new(made);
    replay("keda", &keda_seeds::seeds(), |input| {
        let _status = site.check(&keda_check::framed(input));
        site.check(input) == 0
    });
}
