//! The examples, as users run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tetris_test_support::models::Fixture;

/// Cargo builds examples beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(name);
    assert!(path.exists(), "no example at {}", path.display());
    path
}

fn run(name: &str, store: &Path, model: &Path) -> String {
    let output = Command::new(example(name))
        .env("TETRIS_STORE", store)
        .arg(model)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn load_prints_tensors_and_what_is_shared() {
    let fixture = Fixture::new();
    let model = fixture.model("m.safetensors", 1);
    let first = run("load", fixture.store_dir(), &model);
    assert!(first.contains("\n0 bytes were in the store"), "{first}");
    let second = run("load", fixture.store_dir(), &model);
    assert!(second.contains(" 0 are new, 0 private; 0 read"), "{second}");
    let without = run("load", Path::new("/nowhere"), &model);
    assert!(without.contains("private because"), "{without}");
}

#[test]
fn two_processes_have_half_of_each_page() {
    let fixture = Fixture::new();
    let model = fixture.model("m.safetensors", 1);
    let told = run("two_processes", fixture.store_dir(), &model);
    let numbers: Vec<u64> = told
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [alone, together] = numbers[..] else {
        panic!("{told}");
    };
    assert!(alone > 0 && together * 10 < alone * 6, "{told}");
}
