//! Every committed seed of the fuzz targets `store_files` and `layout_table`, through the check that the target
//! runs, without a fuzzer.

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{layout_table, seeds, store_files};
use tetris_test_support::heap::Bound;

#[test]
fn files_of_a_store_are_judged_as_their_names_say() {
    let site = store_files::Site::default();
    replay("store_files", &seeds::store_files::seeds(), |input| {
        let _judged = site.check(&store_files::repaired(input));
        site.check(input).is_ok()
    });
}

#[test]
fn tables_of_layouts_are_judged_as_their_names_say() {
    replay("layout_table", &seeds::layout_table::seeds(), |bytes| {
        layout_table::check(bytes).is_ok()
    });
}

#[test]
fn a_table_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in seeds::layout_table::heavy() {
        let checked = layout_table::check(&bytes);
        assert!(checked.is_ok(), "{name}: {checked:?}");
    }
}

#[test]
#[should_panic(expected = "bytes of heap for an input of 1000")]
fn a_parser_that_takes_more_than_its_bound_fails() {
    let bound = Bound {
        fixed: 100,
        per_byte: 2,
    };
    assert_eq!(bound.hold(1_000, || vec![0u8; 2_100].len()), 2_100);
    bound.hold(1_000, || vec![0u8; 2_101]);
}
