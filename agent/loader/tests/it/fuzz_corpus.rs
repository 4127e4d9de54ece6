//! Every committed seed of the fuzz targets, through the check that its target runs, without a fuzzer.

use crate::replay::replay;
use crate::{
    header_check, header_seeds, hub_index, hub_index_seeds, manifest_check, manifest_repair,
    manifest_seeds,
};

#[test]
fn header_seeds_are_judged_as_their_names_say() {
    replay("safetensors_header", &header_seeds::seeds(), |bytes| {
        header_check::check(bytes).is_ok()
    });
}

#[test]
fn a_header_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, file) in header_seeds::heavy() {
        let checked = header_check::check(&file);
        assert!(checked.is_ok(), "{name}: {checked:?}");
    }
}

#[test]
fn manifest_seeds_are_judged_as_their_names_say() {
    let seeds = manifest_seeds::seeds(manifest_repair::repaired);
    replay("manifest", &seeds, |bytes| {
        let _judged = manifest_check::check(&manifest_repair::repaired(bytes));
        manifest_check::check(bytes).is_ok()
    });
}

#[test]
fn indexes_of_several_files_are_judged_as_their_names_say() {
    let site = hub_index::Site::new();
    replay("hub_index", &hub_index_seeds::seeds(), |bytes| {
        site.check(bytes).is_ok()
    });
}
