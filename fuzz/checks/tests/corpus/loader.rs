//! Every committed seed of the fuzz targets, through the check that its target runs, without a fuzzer.

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{hub_index, manifest, manifest_repair, safetensors_header, seeds};

#[test]
fn header_seeds_are_judged_as_their_names_say() {
    replay(
        "safetensors_header",
        &seeds::safetensors_header::seeds(),
        |bytes| safetensors_header::check(bytes).is_ok(),
    );
}

#[test]
fn a_header_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, file) in seeds::safetensors_header::heavy() {
        let checked = safetensors_header::check(&file);
        assert!(checked.is_ok(), "{name}: {checked:?}");
    }
}

#[test]
fn manifest_seeds_are_judged_as_their_names_say() {
    let seeds = seeds::manifest::seeds(manifest_repair::repaired);
    replay("manifest", &seeds, |bytes| {
        let _judged = manifest::check(&manifest_repair::repaired(bytes));
        manifest::check(bytes).is_ok()
    });
}

#[test]
fn indexes_of_several_files_are_judged_as_their_names_say() {
    let site = hub_index::Site::default();
    replay("hub_index", &seeds::hub_index::seeds(), |bytes| {
        site.check(bytes).is_ok()
    });
}
