//! Every committed seed of the fuzz targets of the scaler, through the check that the target
//! runs, without a fuzzer.

use std::io::{self, Read as _};

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{inventory_page, keda, loads_page, prometheus_answer, seeds};

#[test]
fn calls_of_keda_are_judged_as_their_names_say() {
    let site = keda::Site::default();
    replay("keda", &seeds::keda::seeds(), |input| {
        let _status = site.check(&keda::framed(input));
        site.check(input) == 0
    });
}

#[test]
fn pages_of_gateways_are_judged_as_their_names_say() {
    replay("loads_page", &seeds::loads_page::seeds(), |bytes| {
        loads_page::check(bytes).is_ok()
    });
}

#[test]
fn a_page_of_many_functions_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in seeds::loads_page::heavy() {
        let checked = loads_page::check(&bytes);
        assert!(checked.is_ok(), "{name}: {checked:?}");
    }
}

#[test]
fn answers_of_prometheus_are_judged_as_their_names_say() {
    replay(
        "prometheus_answer",
        &seeds::prometheus_answer::seeds(),
        prometheus_answer::check,
    );
}

#[test]
fn an_answer_of_many_samples_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in seeds::prometheus_answer::heavy() {
        let is_load = prometheus_answer::check(&bytes);
        let expected = !name.contains("lists") && !name.contains("objects");
        assert_eq!(is_load, expected, "{name}");
    }
}

#[test]
fn inventories_of_nodes_are_judged_as_their_names_say() {
    replay("inventory_page", &seeds::inventory_page::seeds(), |input| {
        inventory_page::check(input).is_ok()
    });
}

#[test]
fn an_inventory_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, input) in seeds::inventory_page::heavy() {
        let checked = inventory_page::check(&input);
        assert_eq!(checked.is_ok(), name != "gpus", "{name}: {checked:?}");
    }
}

#[test]
fn a_page_that_is_longer_than_its_limit_once_decompressed_is_refused() {
    let mut compressed = Vec::new();
    flate2::read::GzEncoder::new(
        io::repeat(b' ').take(inventory_page::MAX_PAGE as u64 + 1),
        flate2::Compression::best(),
    )
    .read_to_end(&mut compressed)
    .unwrap();
    assert!(compressed.len() < 2_000, "{} bytes", compressed.len());
    let input = [&[inventory_page::GZIP], compressed.as_slice()].concat();
    let error = inventory_page::check(&input).unwrap_err();
    assert!(error.contains("more than 1048576 bytes"), "{error}");
}
