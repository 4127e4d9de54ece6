//! Every committed seed of the fuzz target `store_files`, through the check that the target runs,
//! without a fuzzer.

use crate::replay::replay;
use crate::{store_files, store_files_seeds};

#[test]
fn files_of_a_store_are_judged_as_their_names_say() {
    let site = store_files::Site::new();
    replay("store_files", &store_files_seeds::seeds(), |input| {
        let _judged = site.check(&store_files::repaired(input));
        site.check(input).is_ok()
    });
}
