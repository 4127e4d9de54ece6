//! Tests of measurements against the server's law.

use crate::profiling::run::{Case, cgroups_or_skip, stderr};
use tetris_scaler_profiler::ProfiledConfiguration;

fn find(configurations: &[ProfiledConfiguration], name: &str) -> ProfiledConfiguration {
    let configuration = configurations
        .iter()
        .find(|configuration| configuration.setting.name() == name);
    *configuration.unwrap_or_else(|| panic!("{name} is not in the profile"))
}

#[test]
fn latencies_are_those_that_requests_have() {
    let case = Case::new();
    let grid = ["--cpus", "1", "--batch", "1,2", "--concurrency", "1,2"];
    let profile = case.profile(&grid, &["--fixed-ms", "20", "--each-ms", "10"]);
    let all = &profile.spec.configurations;
    assert_eq!(all.len(), 4);
    for (name, millis) in [
        ("c1000-b1-p1", 30),
        ("c1000-b1-p2", 30),
        ("c1000-b2-p1", 40),
        ("c1000-b2-p2", 40),
    ] {
        let latency = find(all, name).latency_micros;
        assert!(latency.p50 >= millis * 1_000, "{name}: {latency:?}");
        assert!(
            latency.p50 <= latency.p90 && latency.p90 <= latency.p95 && latency.p95 <= latency.p99
        );
    }
    // Four requests share two lanes: each waits for another.
    let case = Case::new();
    let grid = ["--cpus", "1", "--batch", "2", "--concurrency", "2"];
    let profile = case.profile(&grid, &["--fixed-ms", "30", "--lanes", "2"]);
    let latency = profile.spec.configurations[0].latency_micros;
    assert!(latency.p50 >= 60_000, "{latency:?}");
    case.assert_all_gone();
}

#[test]
fn own_memory_is_what_the_server_takes_and_not_much_more() {
    if !cgroups_or_skip("own_memory_is_what_the_server_takes_and_not_much_more") {
        return;
    }
    let case = Case::new();
    let grid = ["--cpus", "0.5,1", "--batch", "1", "--concurrency", "1,3"];
    let profile = case.profile(&grid, &["--own-mib", "50", "--thread-mib", "20"]);
    for configuration in &profile.spec.configurations {
        let least = 50 + 20 * u64::from(configuration.setting.concurrency);
        let mib = configuration.own_bytes >> 20;
        assert!(
            (least..least * 2).contains(&mib),
            "{}: {mib} MiB",
            configuration.setting.name()
        );
    }
    assert_eq!(profile.spec.configurations.len(), 4);
}

#[test]
fn what_an_objective_rules_out_is_not_started() {
    let case = Case::new();
    let options = [
        "--cpus",
        "1",
        "--batch",
        "1,2,4",
        "--concurrency",
        "1",
        "--slo-millis",
        "100",
    ];
    let output = case.run(&options, &["--fixed-ms", "60", "--each-ms", "20"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // 80 ms meets 100 ms for single requests; batches may take 50 ms.
    assert!(case.started("c1000-b1-p1"));
    assert!(!case.started("c1000-b2-p1") && !case.started("c1000-b4-p1"));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("c1000-b2-p1: not measured, c1000-b1-p1 takes"),
        "{table}"
    );
}

#[test]
fn threads_that_help_no_more_end_a_row() {
    let case = Case::new();
    let options = [
        "--cpus",
        "1",
        "--batch",
        "1",
        "--concurrency",
        "1,2,3,4,5,6",
    ];
    // Each thread takes 8 MiB, and one lane serves them all: throughput is constant, and latency
    // and memory grow. Noise decides where a row ends, but every configuration is either in the
    // profile or ruled out.
    let server = ["--fixed-ms", "20", "--lanes", "1", "--thread-mib", "8"];
    let output = case.run(&options, &server);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for concurrency in 1..=6 {
        let name = format!("c1000-b1-p{concurrency}");
        let ruled_out = table.contains(&format!("{name}: not measured"));
        assert_ne!(case.started(&name), ruled_out, "{table}");
    }
    assert!(case.started("c1000-b1-p3"));
}

#[test]
fn without_a_cgroup_instances_are_bound_and_fractions_are_refused() {
    let case = Case::new();
    let grid = [
        "--batch",
        "1",
        "--concurrency",
        "1",
        "--cgroup-parent",
        "no/such/cgroup",
    ];
    let server = ["--own-mib", "50"];
    let output = case.run(&[&grid[..], &["--cpus", "0.5,1"]].concat(), &server);
    let told = stderr(&output);
    assert!(
        told.contains("c500-b1-p1 takes a fraction of a CPU") && told.contains("no/such/cgroup"),
        "{told}"
    );
    let output = case.run(
        &[&grid[..], &["--cpus", "1", "--format", "json"]].concat(),
        &server,
    );
    let told = stderr(&output);
    assert!(
        output.status.success() && told.contains("no memory limit is verified"),
        "{told}"
    );
    let profile: tetris_scaler_profiler::ModelProfileManifest =
        serde_json::from_slice(&output.stdout).unwrap();
    let mib = profile.spec.configurations[0].own_bytes >> 20;
    assert!((50 + 64..200).contains(&mib), "{mib} MiB");
    case.assert_all_gone();
}

#[test]
fn on_a_gpu_the_time_of_a_batch_is_what_the_server_tells() {
    let case = Case::new();
    let grid = ["--cpus", "1", "--batch", "1", "--concurrency", "1"];
    let gpu = ["--gpu-type", "Tesla T4", "--gpu-own-bytes", "300"];
    let options: Vec<&str> = grid.into_iter().chain(gpu).collect();
    let profile = case.profile(&options, &["--fixed-ms", "20", "--gpu-ms", "7"]);
    let configuration = profile.spec.configurations[0];
    assert_eq!(configuration.gpu_type.unwrap().as_str(), "Tesla T4");
    let on = configuration.gpu.unwrap();
    assert_eq!((on.own_bytes, on.inference_micros), (300, Some(7_000)));
    // A server without statistics, and the same command on another type: nothing is taken over.
    let output = case.run(&options, &["--fixed-ms", "20"]);
    let warned = stderr(&output);
    assert!(
        warned.contains("the server does not tell the time"),
        "{warned}"
    );
    let alone = case.run(&["--gpu-own-bytes", "300"], &[]);
    assert!(stderr(&alone).contains("--gpu-type"), "{}", stderr(&alone));
}

#[test]
fn without_a_cgroup_all_configurations_have_the_largest_memory() {
    let case = Case::new();
    let options = [
        "--cpus",
        "1",
        "--batch",
        "1",
        "--concurrency",
        "1,2",
        "--cgroup-parent",
        "no/such/cgroup",
    ];
    let profile = case.profile(&options, &["--own-mib", "50", "--thread-mib", "40"]);
    let bytes: Vec<u64> = profile
        .spec
        .configurations
        .iter()
        .map(|entry| entry.own_bytes >> 20)
        .collect();
    assert_eq!(bytes.len(), 2);
    assert!(
        bytes[0] == bytes[1] && bytes[0] >= 50 + 80 + 64,
        "{bytes:?}"
    );
}
