//! Replay of a target's seeds on stable Rust: each through the check that the target runs. Shared by
//! the tests of the crates that are fuzzed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of a target's seeds.
fn folder(target: &str) -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let corpus = above.find_map(|folder| {
        let corpus = folder.join("fuzz/corpus");
        corpus.is_dir().then_some(corpus)
    });
    corpus.expect("fuzz/corpus above the crate").join(target)
}

/// The committed seeds of a target, by name.
///
/// # Panics
///
/// If there are none.
pub fn committed(target: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder);
    let seeds: BTreeMap<_, _> = entries
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    assert!(!seeds.is_empty(), "no seeds in {}", folder.display());
    seeds
}

/// Runs `accepts` on each committed seed of `target`, and compares the result with the seed's name:
/// `valid-...` is accepted, `hostile-...` refused. Other names are inputs that crashed a target
/// once; they only pass the check. The seeds of `source` are committed as they are; with
/// `UPDATE_GOLDEN` set they are written first.
///
/// # Panics
///
/// If a seed is judged otherwise, or differs from its source.
pub fn replay(
    target: &str,
    source: &[(&'static str, Vec<u8>)],
    mut accepts: impl FnMut(&[u8]) -> bool,
) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let folder = folder(target);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in source {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let committed = committed(target);
    for (name, bytes) in source {
        let same = committed.get(*name) == Some(bytes);
        assert!(
            same,
            "{target}/{name} differs from its source or is missing; set UPDATE_GOLDEN=1 to write it"
        );
    }
    for (name, bytes) in &committed {
        let accepted = accepts(bytes);
        match name.split('-').next() {
            Some("valid") => assert!(accepted, "{target}/{name} was refused"),
            Some("hostile") => assert!(!accepted, "{target}/{name} was accepted"),
            _ => {}
        }
    }
}
