//! Tests of interrupted profilers, and of those that continue.

use std::process::{Child, Stdio};

use crate::profiling::run::{Case, cgroups_left, poll, stderr};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const GRID: [&str; 6] = ["--cpus", "1", "--batch", "1", "--concurrency", "1,2,3"];
const SERVER: [&str; 4] = ["--fixed-ms", "20", "--each-ms", "5"];

/// Starts a profiler and returns once it measures the second configuration, after the first is
/// finished.
fn in_the_middle(case: &Case) -> Child {
    let mut command = case.command(&GRID, &SERVER);
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    poll("the second configuration", || case.started("c1000-b1-p2"));
    child
}

fn stop(mut child: Child, signal: Signal) -> String {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let output = {
        child.stdin.take();
        child.wait_with_output().unwrap()
    };
    assert!(!output.status.success());
    stderr(&output)
}

#[test]
fn a_profiler_that_is_killed_leaves_no_server_and_the_next_measures_only_the_rest() {
    let case = Case::new();
    let child = in_the_middle(&case);
    let killed = child.id();
    stop(child, Signal::SIGKILL);
    case.assert_all_gone();
    std::fs::remove_file(case.path("starts")).unwrap();
    let profile = case.profile(&GRID, &SERVER);
    assert_eq!(profile.spec.configurations.len(), 3);
    assert!(!case.started("c1000-b1-p1"), "it was finished already");
    assert!(case.started("c1000-b1-p2") && case.started("c1000-b1-p3"));
    assert_eq!(cgroups_left(killed), Vec::<std::path::PathBuf>::new());
}

#[test]
fn signals_end_the_server_and_remove_its_cgroup() {
    for (signal, told) in [
        (Signal::SIGINT, "interrupted"),
        (Signal::SIGTERM, "terminated"),
    ] {
        let case = Case::new();
        let child = in_the_middle(&case);
        let process = child.id();
        let said = stop(child, signal);
        assert!(
            said.contains(&format!("{told}; finished measurements are kept")),
            "{said}"
        );
        // The profiler waited for both before it ended.
        assert_eq!(cgroups_left(process), Vec::<std::path::PathBuf>::new());
        case.assert_all_gone();
    }
}

#[test]
fn what_is_in_the_database_is_written_without_measuring() {
    let case = Case::new();
    let grid = ["--cpus", "1", "--batch", "1", "--concurrency", "1,2"];
    let measured = case.profile(&grid, &SERVER);
    let starts = case.starts().len();
    assert_eq!(
        case.profile(&grid, &SERVER),
        measured,
        "everything is known"
    );
    assert_eq!(case.profile(&["--from-database"], &[]), measured);
    let list = case.run(&["--list"], &[]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        list.lines()
            .any(|line| line.split_whitespace().take(3).eq(["m", "m", "2"])),
        "{list}"
    );
    let missing = case.run(&["--from-database", "--name", "other"], &[]);
    assert!(stderr(&missing).contains("has no profile `other`"));
    assert_eq!(
        case.starts().len(),
        starts,
        "nothing was started for any of these"
    );
    // Another command is another measurement, and so is a fresh one.
    case.profile(&grid, &["--fixed-ms", "5"]);
    let again = case.starts().len();
    assert!(again > starts);
    case.profile(&[&grid[..], &["--fresh"]].concat(), &["--fixed-ms", "5"]);
    assert!(case.starts().len() > again);
}

#[test]
fn a_profile_is_written_to_a_file_as_yaml() {
    let case = Case::new();
    let file = case.path("profile.yaml");
    let options = [
        "--cpus",
        "1",
        "--batch",
        "1",
        "--concurrency",
        "1",
        "--output",
        file.to_str().unwrap(),
    ];
    let output = case.run(&options, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let yaml = std::fs::read_to_string(&file).unwrap();
    let profile: tetris_scaler_profiler::ModelProfileManifest =
        serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(profile.spec.configurations[0].setting.name(), "c1000-b1-p1");
    assert!(
        yaml.starts_with("apiVersion: tetris.dev/v1alpha1\n"),
        "{yaml}"
    );
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("c1000-b1-p1") && table.contains("requests/s"),
        "{table}"
    );
}
