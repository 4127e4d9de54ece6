//! BENCHMARKS.md, the chart and README's figures are those of docs/benchmarks.

use std::process::Command;

use tetris_tests::sources::repository;

#[test]
fn pages_have_the_figures_of_the_committed_results() {
    let checked = Command::new("python3")
        .args(["tests/bench-report", "--check"])
        .current_dir(repository())
        .output()
        .expect("python3 cannot be run");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}
