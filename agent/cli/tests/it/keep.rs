//! `keep`: a model that stays in the store, and its readiness probe.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;
use tetris_test_support::json_schema::assert_fits;
use tetris_test_support::models::write_model;

use crate::site::{Background, Site};

/// A store, and a model in a folder.
fn source() -> (Site, PathBuf) {
    let site = Site::new();
    let source = site.dir().join("model");
    std::fs::create_dir(&source).unwrap();
    write_model(&source.join("model.safetensors"), 1, None);
    std::fs::write(source.join("config.json"), "{}").unwrap();
    (site, source)
}

/// A port that no one listens on.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_model_stays_while_the_command_runs_and_goes_after() {
    let (site, source) = source();
    let port = free_port();
    let mut command = site.command(&["keep", "--format", "json", "--name", "llama"]);
    command
        .arg(format!("--ready-port={port}"))
        .arg(&source)
        .stderr(Stdio::null());
    let mut keep = Background::start(&mut command);
    let document: Value = serde_json::from_str(&keep.line()).unwrap();
    assert_fits(&document);
    assert_eq!(
        (&document["name"], &document["files"]),
        (&"llama".into(), &2.into())
    );
    // It is there once the model is, and answers one after the other.
    for _ in 0..3 {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
    let kept = site.json(&["gc"]);
    assert_eq!(kept["freed_bytes"], 0, "{kept}");
    keep.signal(Signal::SIGTERM);
    assert!(keep.finish().success());
    let freed = site.json(&["gc"]);
    assert!(freed["freed_bytes"].as_u64().unwrap() > 0, "{freed}");
}

#[test]
fn what_cannot_be_kept_ends_the_command_before_the_probe_passes() {
    let (site, source) = source();
    let port = free_port();
    let probe = format!("--ready-port={port}");
    for (arguments, code) in [
        (
            vec!["keep", "--name", "../llama", source.to_str().unwrap()],
            2,
        ),
        (vec!["keep", "--name", "llama", "/nowhere", &probe], 4),
    ] {
        let output = site.command(&arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
    }
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
}
