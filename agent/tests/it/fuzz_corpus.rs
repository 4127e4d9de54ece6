//! Every committed seed of the fuzz target `sidecar`, through the check that the target runs, without
//! a fuzzer.

use crate::replay::replay;
use crate::{sidecar, sidecar_seeds};

#[test]
fn sidecars_are_judged_as_their_names_say() {
    let site = sidecar::Site::new();
    replay("sidecar", &sidecar_seeds::seeds(), |bytes| {
        let _valid = site.check(&sidecar::repaired(bytes));
        site.check(bytes)
    });
}
