//! Tests with servers that fail.

use crate::profiling::run::{Case, stderr};

const ONE: [&str; 6] = ["--cpus", "1", "--batch", "1", "--concurrency", "1"];

/// Returns the profiler's error for a server that it cannot measure.
fn refused(options: &[&str], server: &[&str]) -> String {
    let case = Case::new();
    let output = case.run(&[&ONE[..], options].concat(), server);
    assert!(!output.status.success());
    case.assert_all_gone();
    stderr(&output)
}

#[test]
fn a_server_that_ends_is_seen_at_once_with_its_last_words() {
    // Without that the profiler would wait much longer than the test may take.
    let told = refused(&["--ready-seconds", "3600"], &["--exit-at", "1"]);
    assert!(
        told.contains("exit status: 1 while it was starting"),
        "{told}"
    );
    assert!(told.contains("no use for 1 threads"), "{told}");
    let case = Case::new();
    let mut command = std::process::Command::new(crate::profiling::run::example("profile"));
    let command = command
        .args(["--model", "m", "--database"])
        .arg(case.path("p.redb"));
    let output = command
        .args(["--cpus", "1", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert!(
        stderr(&output).contains("/no/such/program"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_server_that_is_never_ready_has_a_deadline() {
    let told = refused(&["--ready-seconds", "1"], &["--never-ready"]);
    assert!(
        told.contains("was not ready after 1 s: /v2/health/ready answered 503"),
        "{told}"
    );
}

#[test]
fn a_server_that_refuses_is_quoted() {
    let told = refused(&[], &["--refuse"]);
    assert!(
        told.contains("/v2/models/m/infer answered 400") && told.contains("refused on purpose"),
        "{told}"
    );
    let told = refused(&[], &["--refuse-later"]);
    assert!(told.contains("requests failed, the first with"), "{told}");
}

#[test]
fn hostile_metadata_is_refused() {
    for (metadata, expected) in [
        (
            r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4000000000000]}]}"#,
            "has more than",
        ),
        (
            r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [-7]}]}"#,
            "found dimension -7",
        ),
        (r#"{"inputs": []}"#, "`inputs` has 0 entries"),
        ("not JSON", "answered 418"),
    ] {
        let told = refused(&[], &["--metadata", metadata]);
        assert!(told.contains(expected), "{told}");
    }
    let long = format!(r#"{{"inputs": [], "x": "{}"}}"#, "x".repeat(100_000));
    let told = refused(&[], &["--metadata", &long]);
    assert!(told.contains("`inputs` has 0 entries"), "{told}");
}

#[test]
fn a_configuration_that_fails_leaves_the_others() {
    let case = Case::new();
    let grid = [
        "--cpus",
        "1",
        "--batch",
        "1",
        "--concurrency",
        "1,2,3",
        "--format",
        "json",
    ];
    let output = case.run(&grid, &["--exit-at", "2"]);
    let told = stderr(&output);
    assert!(
        !output.status.success() && told.contains("1 of 3 configurations could not be measured"),
        "{told}"
    );
    let profile: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        profile["spec"]["configurations"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_request_from_a_file_is_sent_as_it_is() {
    let case = Case::new();
    let file = case.path("request.json");
    let path = file.to_str().unwrap();
    let options = [&ONE[..], &["--request", path]].concat();
    let wrong = r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": [0]}]}"#;
    std::fs::write(&file, wrong).unwrap();
    let told = stderr(&case.run(&options, &[]));
    assert!(told.contains("refused on purpose"), "{told}");
    std::fs::write(&file, wrong.replace("[2, 4]", "[1, 4]")).unwrap();
    // The profiler does not ask for the metadata, which is invalid here.
    case.profile(&options, &["--metadata", "none"]);
    std::fs::write(&file, "{}").unwrap();
    let told = stderr(&case.run(&options, &[]));
    assert!(
        told.contains("request.json` is not an inference request"),
        "{told}"
    );
}

#[test]
fn wrong_options_are_named() {
    for (options, expected) in [
        (&["--cpus", "0.0001"][..], "--cpus"),
        (&["--cpus", "1,1"], "`cpus` has 1000 more than once"),
        (&["--batch", "0"], "`batch` is 0"),
        (&["--name", "No"], "--name `No`"),
        (&["--cpus", "4096"], "leave it out of --cpus"),
        (&["--requests", "3"], "3 is not in 20.."),
        (&["--slo-percentile", "50"], "--slo-millis"),
    ] {
        let case = Case::new();
        let output = case.run(options, &[]);
        assert!(!output.status.success());
        assert!(
            stderr(&output).contains(expected),
            "{options:?}: {}",
            stderr(&output)
        );
        assert!(case.starts().is_empty());
    }
}
