//! An interrupted or killed run ends its processes and removes its files.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::site::{Site, children, eventually, lives};

/// Starts a run that does not end within a test, and finds its children: at least the janitor, a
/// server and a client.
fn long_run(site: &Site, only: &str, least: usize) -> (Child, Vec<u32>) {
    let mut command = site.with_rounds(1000);
    command.arg(only);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let run = command.spawn().unwrap();
    let mut processes = Vec::new();
    eventually("the run has its processes", || {
        processes = children(run.id());
        processes.len() >= least
    });
    assert_eq!(site.files().len(), 1, "the directory is there");
    (run, processes)
}

fn ends_with(site: &Site, mut run: Child, children: &[u32], signal: Signal) {
    let id = Pid::from_child(&run);
    kill_process(id, signal).unwrap();
    let status = run.wait().unwrap();
    assert!(!status.success(), "{status}");
    eventually("all processes end", || {
        !children.iter().any(|id| lives(*id))
    });
    eventually("nothing is left", || site.files().is_empty());
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let site = Site::new();
    let (run, children) = long_run(&site, "--only=eviction", 3);
    // Like an interrupt, which the caller of the tests may have set to be ignored.
    ends_with(&site, run, &children, Signal::TERM);
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    let site = Site::new();
    let (run, children) = long_run(&site, "--only=attach", 4);
    ends_with(&site, run, &children, Signal::KILL);
}

/// Waits until the file has a report of this many measures.
fn kept(path: &std::path::Path, measures: usize) -> serde_json::Value {
    let mut report = serde_json::Value::Null;
    eventually("the report is kept", || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.is_empty() {
            return false;
        }
        // Never a part of a document.
        report = serde_json::from_str(&text).unwrap();
        report["measures"].as_array().unwrap().len() == measures
    });
    report
}

#[test]
fn a_killed_run_has_kept_the_measures_that_were_taken() {
    let (site, folder) = (Site::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("report.json");
    let mut command = site.with_rounds(1000);
    // A process for each round: the second measure takes far longer than the kill.
    command
        .args(["--only=processes,attach", "--keep"])
        .arg(&path);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let run = command.spawn().unwrap();
    let first = kept(&path, 1);
    assert_eq!(first["complete"], false);
    assert_eq!(first["measures"][0]["name"], "processes");
    assert_eq!(first["measures"][0]["outcome"], "measured");
    let all = children(run.id());
    ends_with(&site, run, &all, Signal::KILL);
    let last = kept(&path, 1);
    assert_eq!(
        (&last["complete"], &last["schema_version"]),
        (&false.into(), &1.into())
    );
}

#[test]
fn a_run_that_ends_has_kept_the_document_that_it_prints() {
    let (site, folder) = (Site::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("report.json");
    let mut command = site.small();
    command.args(["--only=processes,load-file", "--json", "--keep"]);
    let printed = crate::site::run(command.arg(&path)).expect(0);
    let mut kept = kept(&path, 2);
    assert_eq!(kept["complete"], true);
    // The subcommand's document has the version too; this program's has not.
    kept.as_object_mut().unwrap().remove("schema_version");
    assert_eq!(kept, printed.json());
    assert!(
        printed.stderr.contains("with the model"),
        "{}",
        printed.stderr
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_server_that_dies_ends_the_measure_with_its_reason_and_not_the_run() {
    let site = Site::new();
    let mut command = site.with_rounds(1000);
    command.args(["--only=eviction", "--json"]);
    let run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = None;
    eventually("there is a server", || {
        let socket = site.files().first().map(|folder| folder.join("gpu"));
        server = children(run.id()).into_iter().find(|id| listens(*id));
        socket.is_some_and(|socket| socket.exists()) && server.is_some()
    });
    let pid = Pid::from_raw(server.unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["measures"][0]["outcome"], "failed", "{report}");
    assert!(
        report["measures"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("process"),
        "{report}"
    );
    assert!(site.files().is_empty());
}

/// Returns true if a process has the mirror's threads.
fn listens(id: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{id}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "mirror-socket")
    })
}
