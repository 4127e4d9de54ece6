//! Every committed seed of the fuzz targets, through the check that its target runs, without a fuzzer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{header_check, header_seeds, manifest_check};

fn committed(target: &str) -> BTreeMap<String, Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let dir = corpus.join(target);
    let seeds: BTreeMap<_, _> = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    assert!(!seeds.is_empty(), "no seeds in {}", dir.display());
    seeds
}

/// Runs `accepts` on every seed of `target` and compares with what the seed's name says.
fn judged_as_named(target: &str, accepts: impl Fn(&[u8]) -> bool) {
    for (name, bytes) in committed(target) {
        let accepted = accepts(&bytes);
        match name.split('-').next() {
            Some("valid") => assert!(accepted, "{target}/{name} was refused"),
            Some("hostile") => assert!(!accepted, "{target}/{name} was accepted"),
            // An input that crashed the target once and was kept: it only has to pass the check
            _ => {}
        }
    }
}

#[test]
fn header_seeds_are_judged_as_their_names_say() {
    judged_as_named("safetensors_header", |bytes| {
        header_check::check(bytes).is_ok()
    });
}

#[test]
fn manifest_seeds_are_judged_as_their_names_say() {
    judged_as_named("manifest", |bytes| manifest_check::check(bytes).is_ok());
}

/// After a failure, `cargo run --example write_seeds` in `fuzz/` writes them again.
#[test]
fn every_header_seed_in_the_source_is_committed_as_it_is() {
    let committed = committed("safetensors_header");
    for (name, bytes) in header_seeds::seeds() {
        let same = committed.get(name) == Some(&bytes);
        assert!(same, "{name} differs or is missing");
    }
}
