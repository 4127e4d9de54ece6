//! Tests of a run that an operator follows: its budget, its progress and its result over HTTP.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tetris_scaler_profiler::cli::{PROFILE_PATH, RunState};

use crate::profiling::run::{Case, poll, stderr};

const GRID: [&str; 6] = ["--cpus", "1", "--batch", "1", "--concurrency", "1,2,3"];
const SERVER: [&str; 4] = ["--fixed-ms", "40", "--each-ms", "5"];

/// Returns the state at `port`; `None` before there is one.
fn state(port: u16) -> Option<RunState> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    let request = format!("GET {PROFILE_PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Some(serde_json::from_str(body).unwrap())
}

#[test]
fn progress_and_result_are_shown_until_a_signal() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let case = Case::new();
    let address = format!("127.0.0.1:{port}");
    let options = [&GRID[..], &["--serve", &address, "--format", "json"]].concat();
    let mut command = case.command(&options, &SERVER);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut steps = Vec::new();
    let mut result = None;
    poll("the result", || {
        match state(port) {
            Some(RunState::Measuring { done, of, step }) => {
                assert_eq!(of, 3);
                steps.push((done, step));
            }
            Some(RunState::Measured { profile, failures }) => {
                assert_eq!(failures, 0);
                result = Some(profile);
            }
            None => {}
        }
        result.is_some()
    });
    assert!(steps.is_sorted_by_key(|(done, _)| *done), "{steps:?}");
    let has = |text: &str| steps.iter().any(|(_, step)| step.contains(text));
    assert!(has("c1000-b1-p1") && has("c1000-b1-p3"), "{steps:?}");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let printed: tetris_scaler_profiler::ModelProfileManifest =
        serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed.spec, *result.unwrap());
    assert_eq!(printed.spec.configurations.len(), 3);
}

#[test]
fn nothing_begins_after_the_budget() {
    let case = Case::new();
    let options = [&GRID[..], &["--budget-seconds", "1", "--format", "json"]].concat();
    let output = case.run(&options, &SERVER);
    assert!(output.status.success(), "{}", stderr(&output));
    let profile: tetris_scaler_profiler::ModelProfileManifest =
        serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(profile.spec.configurations.len(), 1);
    let said = stderr(&output);
    assert!(said.contains("2 configurations are not measured"), "{said}");
    assert!(!case.started("c1000-b1-p2"));
    // Without a limit the same command measures the rest.
    assert_eq!(case.profile(&GRID, &SERVER).spec.configurations.len(), 3);
}
