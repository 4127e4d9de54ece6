//! Tests of servers that speak OpenAI's completions.

use crate::profiling::run::{Case, stderr};

const GRID: [&str; 6] = ["--cpus", "1", "--batch", "1", "--concurrency", "1,4"];
const SERVER: [&str; 2] = ["--fixed-ms", "20"];

#[test]
fn completions_are_measured_with_the_given_tokens() {
    let case = Case::new();
    let options = [
        "--protocol",
        "openai",
        "--tokens",
        "7",
        "--dynamic-size",
        "5",
    ];
    let profile = case.profile(&[&GRID[..], &options].concat(), &SERVER);
    let measured = &profile.spec.configurations;
    assert_eq!(measured.len(), 2);
    // Four at once take the time of one: the server batches by itself.
    let rates: Vec<u64> = measured
        .iter()
        .filter_map(|entry| entry.rate_millis)
        .collect();
    assert!(rates[0] <= 50_000 && rates[1] > 2 * rates[0], "{rates:?}");
    // Measurements of another number of tokens are others.
    let other = [
        "--protocol",
        "openai",
        "--tokens",
        "8",
        "--dynamic-size",
        "5",
    ];
    let refused = case.run(&[&GRID[..], &other].concat(), &SERVER);
    assert!(!refused.status.success());
    assert!(
        stderr(&refused).contains("/v1/completions answered 400"),
        "{}",
        stderr(&refused)
    );
}
