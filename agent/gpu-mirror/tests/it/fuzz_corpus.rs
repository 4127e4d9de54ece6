//! Every committed seed of the fuzz target `wire`, through the check that the target runs, without
//! a fuzzer.

use std::fs;
use std::path::PathBuf;

use crate::{wire_check as check, wire_seeds as seeds};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/wire")
}

#[test]
fn wire_seeds_are_judged_as_their_names_say() {
    let mut found = 0;
    for entry in fs::read_dir(corpus()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        let judged = check::check(&bytes);
        match name.split('-').next() {
            Some("valid") => assert!(judged.is_ok(), "{name}: {judged:?}"),
            Some("hostile") => assert!(judged.is_err(), "{name} was accepted: {judged:?}"),
            // An input that crashed the target once and was kept: it only has to pass the check.
            _ => {}
        }
        let _judged = check::check(&check::repaired(&bytes));
        found += 1;
    }
    assert!(found >= seeds::seeds().len(), "only {found} seeds");
}

#[test]
fn the_seeds_have_a_message_of_every_kind() {
    for (name, messages) in [
        ("valid-daemon-messages", 13),
        ("valid-gpu-requests", 9),
        ("valid-gpu-replies", 14),
        ("valid-preamble-alone", 0),
    ] {
        let bytes = fs::read(corpus().join(name)).unwrap();
        assert_eq!(check::check(&bytes).unwrap(), messages, "{name}");
    }
}

/// After a change, `cargo run --example write_seeds` in `fuzz/` writes them again.
#[test]
fn every_wire_seed_in_the_source_is_committed_as_it_is() {
    for (name, bytes) in seeds::seeds() {
        let committed = fs::read(corpus().join(name)).unwrap_or_default();
        assert_eq!(committed, bytes, "{name}");
    }
}
