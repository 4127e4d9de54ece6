//! Every committed seed of the fuzz targets of the scaler, through the check that the target
//! runs, without a fuzzer.

use std::io::{self, Read as _};

use crate::replay::replay;
use crate::{
    inventory_page, inventory_page_seeds, keda_check, keda_seeds, loads_page, loads_page_seeds,
    prometheus_answer, prometheus_answer_seeds, snapshot,
};

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

#[test]
fn pages_of_gateways_are_judged_as_their_names_say() {
    replay("loads_page", &loads_page_seeds::seeds(), |bytes| {
        loads_page::check(bytes).is_ok()
    });
}

#[test]
fn a_page_of_many_functions_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in loads_page_seeds::heavy() {
        let checked = loads_page::check(&bytes);
        assert!(checked.is_ok(), "{name}: {checked:?}");
    }
}

#[test]
fn answers_of_prometheus_are_judged_as_their_names_say() {
    replay(
        "prometheus_answer",
        &prometheus_answer_seeds::seeds(),
        prometheus_answer::check,
    );
}

#[test]
fn an_answer_of_many_samples_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in prometheus_answer_seeds::heavy() {
        let is_load = prometheus_answer::check(&bytes);
        let expected = !name.contains("lists") && !name.contains("objects");
        assert_eq!(is_load, expected, "{name}");
    }
}

#[test]
fn inventories_of_nodes_are_judged_as_their_names_say() {
    replay("inventory_page", &inventory_page_seeds::seeds(), |input| {
        inventory_page::check(input).is_ok()
    });
}

#[test]
fn an_inventory_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, input) in inventory_page_seeds::heavy() {
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
