//! `doctor`: situations that users meet, and the words and exit codes for them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;
use serde_json::Value;
use tetris_wire::daemon::{Message, PROTOCOL};

use crate::init::Mounted;
use crate::site::{Background, Run, Site, run, skipped, tetris};
use tetris_test_support::models::bytes;

const NOBODY: u32 = 65_534;

/// The document of a run, whose exit code must be that of its status.
#[track_caller]
fn document(run: &Run) -> Value {
    let document = run.json();
    let code = match document["status"].as_str().unwrap() {
        "ok" | "note" => 0,
        "warning" => 6,
        "failure" => 7,
        other => panic!("status {other}"),
    };
    assert_eq!(run.code, Some(code), "{run:?}");
    // The reason for the code, once more, on stderr.
    assert_eq!(run.stderr.contains("error: found "), code != 0, "{run:?}");
    document
}

fn doctor<A: AsRef<std::ffi::OsStr>>(site: &Site, args: &[A]) -> Value {
    let mut command = site.command(&["doctor", "--format", "json"]);
    document(&run(command.args(args)))
}

/// The check `name` of the first section `section`.
#[track_caller]
fn check<'d>(document: &'d Value, section: &str, name: &str) -> &'d Value {
    let sections = document["sections"].as_array().unwrap();
    let section = sections.iter().find(|entry| entry["name"] == section);
    let checks = section.unwrap_or_else(|| panic!("{document}"))["checks"]
        .as_array()
        .unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    check.unwrap_or_else(|| panic!("no check {name}: {document}"))
}

#[track_caller]
fn assert_remedy(check: &Value, words: &str) {
    let remedy = check["remedy"].as_str().unwrap_or_default();
    assert!(remedy.contains(words), "{check}");
}

#[test]
fn a_store_of_one_s_own_is_well() {
    let site = Site::new();
    let diagnosis = doctor::<&str>(&site, &[]);
    assert_eq!(diagnosis["version"], env!("CARGO_PKG_VERSION"));
    for name in [
        "location", "layout", "owner", "publish", "daemon", "contents",
    ] {
        assert_eq!(check(&diagnosis, "store", name)["status"], "ok", "{name}");
    }
    for name in ["kernel", "locks", "proc", "holders"] {
        assert_eq!(check(&diagnosis, "machine", name)["status"], "ok", "{name}");
    }
    let room = &check(&diagnosis, "store", "room")["facts"];
    assert!(room["capacity_bytes"].as_u64() >= room["free_bytes"].as_u64());
    let pages = check(&diagnosis, "store", "pages");
    assert_ne!(pages["status"], "failure", "{pages}");
}

#[test]
fn text_is_grouped_and_narrow() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut command = site.command(&["doctor"]);
    let run = run(command
        .arg(&model)
        .args(["--pid", &std::process::id().to_string()]));
    let heads: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split("  ").next())
        .collect();
    assert_eq!(heads, ["store", "machine", "model", "process"], "{run:?}");
    let paths = |line: &&str| !line.split(' ').any(|word| word.len() > 60);
    for line in run.stdout.lines().filter(paths) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(!run.stdout.contains('\x1b'));
    let summary = run.stdout.lines().last().unwrap();
    assert!(summary.contains(" ok, "), "{summary}");
}

#[test]
fn without_a_usable_store_the_rest_is_diagnosed_and_the_code_is_7() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let diagnose = |store: &Path| {
        let mut command = tetris();
        command
            .arg("--store")
            .arg(store)
            .args(["doctor", "--format", "json"]);
        document(&run(command.arg(&model)))
    };
    let missing = diagnose(&site.dir().join("missing"));
    let layout = check(&missing, "store", "layout");
    assert_eq!(
        (&layout["status"], &layout["facts"]["cause"]),
        (&"failure".into(), &"no-store".into())
    );
    assert_remedy(layout, "tetris init");
    assert_eq!(check(&missing, "machine", "kernel")["status"], "ok");
    let private = check(&missing, "model", "private");
    assert_eq!(private["facts"]["cause"], "no-store");
    assert_eq!(
        private["facts"]["bytes"],
        fs::metadata(&model).unwrap().len()
    );

    let header = site.store_dir().join("store");
    let mut other = fs::read(&header).unwrap();
    other[8] = 2;
    fs::remove_file(&header).unwrap();
    fs::write(&header, other).unwrap();
    let version = diagnose(site.store_dir());
    let layout = check(&version, "store", "layout");
    assert!(
        layout["found"].as_str().unwrap().contains("version 2"),
        "{layout}"
    );
    assert!(
        layout["expected"].as_str().unwrap().contains("version 1"),
        "{layout}"
    );
    assert_remedy(layout, "tetris init");
}

#[test]
fn a_model_goes_from_unknown_to_shared_and_to_missing_in_part() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let unknown = doctor(&site, &[&model]);
    assert_eq!(check(&unknown, "model", "identity")["status"], "note");
    let in_store = check(&unknown, "model", "in store");
    assert_eq!(in_store["facts"]["present_bytes"], 0);
    assert_remedy(in_store, "tetris load");
    assert_eq!(check(&unknown, "model", "private")["status"], "ok");

    site.load(&model);
    let known = doctor(&site, &[&model]);
    assert_eq!(
        check(&known, "model", "identity")["facts"]["known_by"][0],
        "stat"
    );
    let in_store = check(&known, "model", "in store");
    assert_eq!(
        in_store["facts"]["present_bytes"],
        in_store["facts"]["bytes"]
    );
    assert_eq!(in_store["status"], "ok");
    let cached = &check(&known, "model", "page cache")["facts"]["cached_bytes"];
    assert!(cached.as_u64().unwrap() > 0, "it was just read");

    // One of the large tensors, each its own object.
    let listing = site.fixture.store().objects().unwrap().objects;
    let largest = listing.iter().max_by_key(|entry| entry.object.len).unwrap();
    fs::remove_file(site.fixture.store().object_path(&largest.object)).unwrap();
    let partial = doctor(&site, &[&model]);
    let in_store = check(&partial, "model", "in store");
    assert_eq!(in_store["facts"]["missing_tensors"], 1);
    assert!(
        in_store["found"].as_str().unwrap().contains("layer."),
        "{in_store}"
    );
}

#[test]
fn sidecars_are_valid_stale_or_damaged() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    site.run(&["hash".as_ref(), model.as_os_str()]).expect(0);
    let sidecar = site.dir().join("m.safetensors.tetris");
    let state = |document: &Value| check(document, "model", "sidecar").clone();
    assert_eq!(state(&doctor(&site, &[&model]))["status"], "ok");
    let valid = fs::read(&sidecar).unwrap();
    fs::write(&sidecar, &valid[..valid.len() / 2]).unwrap();
    let damaged = state(&doctor(&site, &[&model]));
    assert_eq!(damaged["status"], "warning");
    assert_remedy(&damaged, "tetris hash");
    fs::write(&sidecar, &valid).unwrap();
    site.fixture.model("m.safetensors", 2);
    let stale = state(&doctor(&site, &[&model]));
    assert!(
        stale["found"].as_str().unwrap().contains("changed"),
        "{stale}"
    );
}

#[test]
fn a_missing_or_invalid_model_and_small_files_are_told() {
    let site = Site::new();
    let bad = site.dir().join("bad.safetensors");
    fs::write(&bad, b"version https://git-lfs.github.com/spec/v1").unwrap();
    let small = site.dir().join("small.safetensors");
    tetris_test_support::models::write_f32(&small, &[("w".into(), bytes(1, 4000))]);
    for (path, status) in [
        (&site.dir().join("none"), "failure"),
        (&bad, "failure"),
        (&small, "note"),
    ] {
        let diagnosis = doctor(&site, &[path]);
        let name = if status == "failure" {
            "files"
        } else {
            "private"
        };
        let check = check(&diagnosis, "model", name);
        assert_eq!(check["status"], status, "{check}");
    }
    let text = doctor(&site, &[&small]);
    assert_eq!(
        check(&text, "model", "private")["facts"]["cause"],
        "small-file"
    );
}

#[test]
fn a_store_that_is_too_small_names_the_size() {
    let Some(mounted) = Mounted::new(&["--size", "4MiB"]) else {
        return;
    };
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut command = tetris();
    command
        .arg("--store")
        .arg(&mounted.dir)
        .args(["doctor", "--format", "json"]);
    let diagnosis = document(&run(command.arg(&model)));
    let private = check(&diagnosis, "model", "private");
    assert_eq!(private["facts"]["cause"], "too-small");
    assert_remedy(private, "--size");
}

/// The command as a user who cannot write to the store. It must be able to run it.
fn as_nobody(site: &Site) -> Option<Command> {
    if !geteuid().is_root() {
        skipped("needs root to become another user");
        return None;
    }
    fs::set_permissions(site.store_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(site.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = site.dir().join("tetris");
    // By another process: a child that is forked meanwhile would have the program open for writing.
    let mut copying = Command::new("cp");
    let copied = copying
        .arg(env!("CARGO_BIN_EXE_tetris"))
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(copy);
    command.env_clear().uid(NOBODY).gid(NOBODY);
    command
        .arg("--store")
        .arg(site.store_dir())
        .args(["doctor", "--format", "json"]);
    Some(command)
}

#[test]
fn a_reader_of_another_s_store_is_told_to_have_a_daemon() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    fs::set_permissions(&model, fs::Permissions::from_mode(0o644)).unwrap();
    tetris_test_support::models::settle(&model);
    let Some(mut command) = as_nobody(&site) else {
        return;
    };
    let page = document(&run(command.arg(&model)));
    let publish = check(&page, "store", "publish");
    assert_eq!(publish["status"], "warning");
    assert_eq!(publish["facts"]["cause"], "not-mine");
    assert_remedy(publish, "tetris-node");
    assert_eq!(check(&page, "store", "daemon")["status"], "warning");
    let private = check(&page, "model", "private");
    assert_eq!(private["facts"]["cause"], "not-mine");
    let tensors = private["facts"]["tensors"].as_array().unwrap();
    assert!(
        tensors.iter().any(|name| name == "head.weight"),
        "{private}"
    );

    // Another user's process is closed to it, root's above all.
    let Some(mut command) = as_nobody(&site) else {
        return;
    };
    let diagnosis = document(&run(
        command.args(["--pid", &std::process::id().to_string()])
    ));
    let process = check(&diagnosis, "process", "process");
    assert_eq!(process["status"], "failure");
    assert_remedy(process, "sudo tetris doctor --pid");
}

#[test]
fn a_daemon_is_greeted_and_its_version_compared() {
    let site = Site::new();
    let listener = UnixListener::bind(site.fixture.store().daemon_socket()).unwrap();
    let greeting = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let daemon = "9.9.9".to_owned();
            let hello = Message::HelloAck { daemon }.encode();
            let answer = [PROTOCOL.preamble().as_slice(), &hello].concat();
            stream.write_all(&answer).unwrap();
            let _until_it_hangs_up = std::io::copy(&mut stream, &mut std::io::sink());
        });
        doctor::<&str>(&site, &[])
    });
    let daemon = check(&greeting, "store", "daemon");
    assert_eq!(
        (&daemon["status"], &daemon["facts"]["version"]),
        (&"note".into(), &"9.9.9".into())
    );
    drop(listener);
    // Its socket is left, and no one listens.
    let diagnosis = doctor::<&str>(&site, &[]);
    let daemon = check(&diagnosis, "store", "daemon");
    assert_eq!(daemon["status"], "ok", "the store's owner needs none");
    assert!(
        daemon["found"].as_str().unwrap().contains("left over"),
        "{daemon}"
    );
}

#[test]
fn a_process_that_holds_a_model_shares_it() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let loaded = site.fixture.agent.load(&model).unwrap();
    // Touched, so that some of it is resident.
    let sum: u64 = loaded
        .tensors()
        .map(|tensor| u64::from(tensor.bytes()[0]))
        .sum();
    assert!(sum > 0);
    let diagnosis = doctor(&site, &["--pid", &std::process::id().to_string()]);
    let shared = &check(&diagnosis, "process", "shared")["facts"];
    assert_eq!(shared["objects"], loaded.objects().count());
    assert!(shared["resident_bytes"].as_u64().unwrap() > 0, "{shared}");
    let (_, manifest) = loaded.manifests().next().unwrap();
    let models = check(&diagnosis, "process", "models");
    assert!(
        models["found"].as_str().unwrap().contains("m.safetensors"),
        "{models}"
    );
    assert_eq!(
        models["facts"]["models"][0]["manifest"],
        manifest.unwrap().to_string()
    );
}

#[test]
fn a_process_without_a_model_is_told_so_and_no_process_is_a_failure() {
    let site = Site::new();
    let mut command = Command::new("sh");
    command
        .env("TETRIS_STORE", site.store_dir())
        .args(["-c", "echo ready; read line"]);
    let mut process = Background::start(&mut command);
    assert_eq!(process.line(), "ready");
    let pid = process.child.id().to_string();
    let diagnosis = doctor(&site, &["--pid", &pid]);
    assert_eq!(
        check(&diagnosis, "process", "reason")["facts"]["reason"],
        "no-model"
    );
    let store = check(&diagnosis, "process", "its store");
    assert_eq!(store["facts"]["same"], true, "{store}");
    process.finish();
    let gone = doctor(&site, &["--pid", &pid]);
    let check = check(&gone, "process", "process");
    assert_eq!(check["status"], "failure");
    assert!(
        check["found"].as_str().unwrap().contains("no process"),
        "{check}"
    );
}
