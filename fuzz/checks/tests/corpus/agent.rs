//! Every committed seed of the fuzz target `sidecar`, through the check that the target runs, without
//! a fuzzer.

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{seeds, sidecar};

#[test]
fn sidecars_are_judged_as_their_names_say() {
    let site = sidecar::Site::default();
    replay("sidecar", &seeds::sidecar::seeds(), |bytes| {
        let _valid = site.check(&sidecar::repaired(bytes));
        site.check(bytes)
    });
}
