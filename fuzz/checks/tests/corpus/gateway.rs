//! Every committed seed of the fuzz targets of the gateway, through the check that the target runs,
//! without a fuzzer.

use tetris_fuzz_checks::replay::replay;
use tetris_fuzz_checks::{ext_proc, gateway_config, gpu_page, seeds};

#[test]
fn configurations_are_judged_as_their_names_say() {
    replay("gateway_config", &seeds::gateway_config::seeds(), |bytes| {
        gateway_config::check(bytes).is_ok()
    });
}

#[test]
fn a_configuration_of_many_entries_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in seeds::gateway_config::heavy() {
        let checked = gateway_config::check(&bytes);
        let is_valid = matches!(name, "comments" | "executors");
        assert_eq!(checked.is_ok(), is_valid, "{name}: {checked:?}");
    }
}

#[test]
fn pages_of_executors_are_judged_as_their_names_say() {
    replay("gpu_page", &seeds::gpu_page::seeds(), |bytes| {
        gpu_page::check(bytes).is_ok()
    });
}

#[test]
fn a_page_of_many_models_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in seeds::gpu_page::heavy() {
        let checked = gpu_page::check(&bytes);
        assert_eq!(checked.is_ok(), !name.contains("too many"), "{name}");
    }
}

#[test]
fn messages_of_data_planes_are_judged_as_their_names_say() {
    replay("ext_proc", &seeds::ext_proc::seeds(), ext_proc::check);
}

#[test]
fn a_message_of_many_headers_takes_no_more_memory_than_its_length_allows() {
    for (name, bytes) in seeds::ext_proc::heavy() {
        assert!(!ext_proc::check(&bytes), "{name}");
    }
}
