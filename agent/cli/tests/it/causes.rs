//! Causes of private memory: each is made to happen, and the command of its remedy removes it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::geteuid;
use serde_json::Value;
use tempfile::TempDir;
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, LoadOptions, LoadReport, PrivateCause, Words};

use crate::init::Mounted;
use crate::site::{Run, Site, run, skipped, tetris};
use tetris_test_support::models::{Fixture, bytes, settle, write_f32};

pub const NOBODY: u32 = 65_534;

/// The program and a place for stores, where another user can reach both.
pub struct Reachable {
    pub dir: TempDir,
    program: PathBuf,
}

impl Reachable {
    pub fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let program = dir.path().join("tetris");
        // By another process: this one's other threads fork, and a child that has a program open for
        // writing keeps it from being executed.
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_tetris")).arg(&program);
        assert!(copy.status().unwrap().success());
        Self { dir, program }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A model that everybody may read.
    pub fn model(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        write_f32(&path, &[("w".to_owned(), bytes(1, 1_000_000))]);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        settle(&path);
        path
    }

    /// The command, as another user where this is root.
    pub fn other(&self, args: &[&std::ffi::OsStr]) -> Run {
        let mut command = Command::new(&self.program);
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
            .env_remove("TETRIS_STORE")
            .current_dir("/")
            .args(args);
        run(&mut command)
    }

    /// Loads as the other user, and returns the report.
    fn other_loads(&self, store: &Path, model: &Path) -> Value {
        let args = [
            "--store".as_ref(),
            store.as_os_str(),
            "load".as_ref(),
            model.as_os_str(),
        ];
        let run = self.other(&[&args[..], &["--format".as_ref(), "json".as_ref()]].concat());
        run.expect(0).json()["models"][0].clone()
    }
}

fn needs_root(what: &str) -> bool {
    if geteuid().is_root() {
        return false;
    }
    skipped(format_args!("needs root, {what}"));
    true
}

/// Runs the first command in the text's backticks, with the program that is tested.
fn do_as_told(text: &str) {
    let command = text.split('`').nth(1).unwrap_or_default();
    run_line(command);
}

fn run_line(line: &str) {
    let words: Vec<&str> = line.split(' ').filter(|word| *word != "sudo").collect();
    let (program, args) = words.split_first().unwrap();
    let mut command = match *program {
        "tetris" => tetris(),
        other => Command::new(other),
    };
    // Nothing of this test may mount.
    if args.first() == Some(&"init") && !args.contains(&"--size") {
        command.args(args).arg("--no-mount");
    } else {
        command.args(args);
    }
    run(&mut command).expect(0);
}

/// The remedy in an error of the command: behind the last semicolon.
fn remedy_of(run: &Run) -> String {
    let (_, remedy) = run.stderr.trim_end().rsplit_once("; ").unwrap();
    remedy.to_owned()
}

fn load(store: &Path, model: &Path) -> Run {
    run(tetris().arg("--store").arg(store).arg("load").arg(model))
}

fn cause(location: &StoreLocation) -> PrivateCause {
    Agent::at(location).unavailable_cause().unwrap()
}

#[test]
fn no_store_and_an_empty_directory_become_stores_by_init() {
    let fixture = Fixture::new();
    let model = fixture.model("m.safetensors", 1);
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    for (name, expected) in [
        ("none", PrivateCause::NoStore),
        ("empty", PrivateCause::NotAStore),
    ] {
        let dir = parent.path().join(name);
        if name == "empty" {
            fs::create_dir(&dir).unwrap();
        }
        assert_eq!(cause(&StoreLocation::named(&dir)), expected);
        let refused = load(&dir, &model).expect(3);
        do_as_told(&remedy_of(&refused));
        load(&dir, &model).expect(0);
    }
}

#[test]
fn a_store_of_another_version_and_a_damaged_one_are_recreated() {
    for (offset, expected) in [
        (8, PrivateCause::OtherVersion { found: 2 }),
        (20, PrivateCause::DamagedStore),
    ] {
        let parent = tempfile::tempdir_in("/dev/shm").unwrap();
        let dir = parent.path().join("store");
        run(tetris().arg("init").arg(&dir).arg("--no-mount")).expect(0);
        let header = dir.join("store");
        let mut bytes = fs::read(&header).unwrap();
        bytes[offset] = if offset == 8 { 2 } else { bytes[offset] ^ 1 };
        fs::remove_file(&header).unwrap();
        fs::write(&header, bytes).unwrap();
        let fixture = Fixture::new();
        let model = fixture.model("m.safetensors", 1);
        assert_eq!(cause(&StoreLocation::named(&dir)), expected);
        let refused = load(&dir, &model).expect(3);
        do_as_told(&remedy_of(&refused));
        load(&dir, &model).expect(0);
    }
}

#[test]
fn a_stranger_s_store_is_used_once_it_is_named() {
    if needs_root("for a directory that belongs to somebody else") {
        return;
    }
    let fixture = Fixture::new();
    std::os::unix::fs::chown(fixture.store_dir(), Some(NOBODY), None).unwrap();
    let mut location = StoreLocation::named(fixture.store_dir());
    location.named = false;
    assert_eq!(cause(&location), PrivateCause::NotTrusted { owner: NOBODY });
    let remedy = Agent::at(&location)
        .unavailable_remedy(Words::CommandLine)
        .unwrap();
    let option = remedy
        .split('`')
        .find(|word| word.starts_with("--store "))
        .unwrap();
    let (_, dir) = option.split_once(' ').unwrap();
    let model = fixture.model("m.safetensors", 1);
    load(Path::new(dir), &model).expect(0);
}

#[test]
fn a_store_that_others_may_not_read_is_opened_to_them_by_its_owner() {
    if needs_root("to be two users") {
        return;
    }
    let site = Reachable::new();
    let (store, model) = (site.path("store"), site.model("m.safetensors"));
    let args = ["--no-mount", "--mode", "0700"];
    run(tetris().arg("init").arg(&store).args(args)).expect(0);
    let args = [
        "--store".as_ref(),
        store.as_os_str(),
        "load".as_ref(),
        model.as_os_str(),
    ];
    let refused = site.other(&args);
    let refused = refused.expect(3);
    let remedy = remedy_of(&refused);
    assert!(
        remedy.contains("have its owner run `chmod 0755 "),
        "{remedy}"
    );
    do_as_told(&remedy);
    site.other(&args).expect(0);
}

#[test]
fn root_s_store_without_a_daemon_gives_way_to_one_of_the_user_s_own() {
    if needs_root("to be two users") {
        return;
    }
    let site = Reachable::new();
    let (store, model) = (site.path("store"), site.model("m.safetensors"));
    run(tetris().arg("init").arg(&store).arg("--no-mount")).expect(0);
    let report = site.other_loads(&store, &model);
    assert_eq!(report["private_cause"], "not-mine", "{report}");
    assert_eq!(
        report["bytes_read"], report["bytes_private"],
        "read once: {report}"
    );
    let remedy = report["private_remedy"].as_str().unwrap();
    assert!(remedy.contains("tetris init /dev/shm/tetris"), "{remedy}");
    assert!(!remedy.contains("tetris gc"), "{remedy}");
    // Such a store, elsewhere: the machine's own is not for tests.
    let dir = site.path("own");
    site.other(&["init".as_ref(), dir.as_os_str()]).expect(0);
    let report = site.other_loads(&dir, &model);
    assert_eq!(report["private_cause"], Value::Null, "{report}");

    // A daemon was there, and has died.
    let socket = store.join("daemon");
    drop(UnixListener::bind(&socket).unwrap());
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    let report = site.other_loads(&store, &model);
    assert_eq!(report["private_cause"], "no-daemon", "{report}");
}

/// A store that is mounted read-only a second time, as in pods.
struct ReadOnly {
    store: Fixture,
    parent: TempDir,
}

impl ReadOnly {
    fn new() -> Option<Self> {
        let (store, parent) = (Fixture::new(), tempfile::tempdir().unwrap());
        let none = None::<&str>;
        let bound = mount(
            Some(store.store_dir()),
            parent.path(),
            none,
            MsFlags::MS_BIND,
            none,
        );
        if let Err(error) = bound {
            skipped(format_args!("cannot mount: {error}"));
            return None;
        }
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, parent.path(), none, flags, none).unwrap();
        Some(Self { store, parent })
    }

    fn load(&self, path: &Path) -> LoadReport {
        let agent = Agent::open_store(self.parent.path()).unwrap();
        let options = LoadOptions::default().with_broker_timeout(Duration::from_millis(200));
        let model = agent.load_with(path, &options).unwrap();
        tetris_test_support::models::assert_same(&model, path);
        model.report().clone()
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = umount2(self.parent.path(), MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_read_only_mount_and_a_silent_daemon_are_told_apart_and_a_file_is_read_once() {
    let Some(site) = ReadOnly::new() else { return };
    let path = site.store.model("m.safetensors", 1);
    let report = site.load(&path);
    assert_eq!(
        report.private_cause,
        Some(PrivateCause::ReadOnly),
        "{report:?}"
    );
    assert_eq!(report.bytes_private, report.bytes_total());
    assert_eq!(report.bytes_read, report.bytes_private, "read once");
    let remedy = report.remedy(Words::Python).unwrap();
    assert!(remedy.contains("tetris-node run --store "), "{remedy}");

    // What the store has from another file is shared, and its private bytes are given back.
    drop(
        site.store
            .agent
            .load(site.store.model("other.safetensors", 1))
            .unwrap(),
    );
    let report = site.load(&path);
    assert_eq!(
        (report.bytes_private, report.private_cause),
        (0, None),
        "{report:?}"
    );
    assert_eq!(report.bytes_shared, report.bytes_total());
    let variant = site.store.dir().join("variant.safetensors");
    tetris_test_support::models::write_model(&variant, 1, Some(9));
    let report = site.load(&variant);
    assert!(
        report.bytes_shared > 0 && report.bytes_private > 0,
        "{report:?}"
    );
    assert!(report.bytes_read <= report.bytes_total(), "{report:?}");

    let _stuck = UnixListener::bind(site.store.store_dir().join("daemon")).unwrap();
    let report = site.load(&site.store.model("third.safetensors", 3));
    assert_eq!(
        report.private_cause,
        Some(PrivateCause::DaemonSilent),
        "{report:?}"
    );
}

#[test]
fn a_store_too_small_or_full_takes_the_model_once_it_has_grown_as_told() {
    let fixture = Fixture::new();
    let (one, other) = (
        fixture.model("1.safetensors", 1),
        fixture.model("2.safetensors", 2),
    );
    let Some(mounted) = Mounted::new(&["--size", "4MiB"]) else {
        return;
    };
    let agent = Agent::open_store(&mounted.dir).unwrap();
    let report = |path: &Path| {
        let model = agent.load(path).unwrap();
        (model.report().clone(), model)
    };
    let (small, _) = report(&one);
    assert_eq!(
        small.private_cause.unwrap().code(),
        "too-small",
        "{small:?}"
    );
    do_as_told(&small.remedy(Words::CommandLine).unwrap());
    let (fits, held) = report(&one);
    assert_eq!(
        (fits.bytes_private, fits.private_cause),
        (0, None),
        "{fits:?}"
    );
    let (full, _) = report(&other);
    assert_eq!(full.private_cause.unwrap().code(), "full", "{full:?}");
    do_as_told(&full.remedy(Words::CommandLine).unwrap());
    let (fits, _) = report(&other);
    assert_eq!(
        (fits.bytes_private, fits.private_cause),
        (0, None),
        "{fits:?}"
    );
    drop(held);
}

#[test]
fn objects_that_root_publishes_in_a_user_s_store_are_the_user_s() {
    if needs_root("to publish for another user") {
        return;
    }
    let site = Reachable::new();
    let (store, model) = (site.path("store"), site.model("m.safetensors"));
    site.other(&["init".as_ref(), store.as_os_str()]).expect(0);
    load(&store, &model).expect(0);
    for folder in ["objects-v1", "manifests-v1", "identities-v1"] {
        let mut entries = fs::read_dir(store.join(folder)).unwrap().peekable();
        assert!(entries.peek().is_some(), "{folder} is empty");
        for entry in entries {
            let metadata = entry.unwrap().metadata().unwrap();
            assert_eq!(
                (metadata.uid(), metadata.mode() & 0o777),
                (NOBODY, 0o444),
                "{folder}"
            );
        }
    }
    let args = ["--store".as_ref(), store.as_os_str(), "gc".as_ref()];
    let freed = site.other(&[&args[..], &["--format".as_ref(), "json".as_ref()]].concat());
    let freed = freed.expect(0).json();
    assert!(
        freed["freed_bytes"].as_u64().unwrap() >= 1_000_000,
        "{freed}"
    );
}

#[test]
fn the_log_says_once_that_a_process_shares() {
    let site = Site::new();
    let models = [1, 2].map(|seed| site.fixture.model(&format!("{seed}.safetensors"), seed));
    let args = [
        "load".as_ref(),
        models[0].as_os_str(),
        models[1].as_os_str(),
    ];
    let run = run(site.command(&args).env("TETRIS_LOG", "info")).expect(0);
    let lines: Vec<&str> = run
        .stderr
        .lines()
        .filter(|line| line.contains("INFO"))
        .collect();
    assert_eq!(lines.len(), 1, "{run:?}");
    for part in [
        "shared through the tensor store",
        "because",
        "1.safetensors",
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

#[test]
fn a_store_without_one_of_its_folders_is_for_the_doctor() {
    let site = Site::new();
    fs::remove_dir(site.store_dir().join("objects-v1")).unwrap();
    let location = StoreLocation::named(site.store_dir());
    assert_eq!(cause(&location), PrivateCause::Unusable);
    let refused = site.run(&["stat"]).expect(3);
    assert!(
        remedy_of(&refused).contains("tetris doctor --store "),
        "{refused:?}"
    );
}

#[test]
fn an_agent_that_uses_no_store_says_how_to_use_one() {
    let fixture = Fixture::new();
    let model = Agent::without_store()
        .load(fixture.model("m.safetensors", 1))
        .unwrap();
    let report = model.report();
    assert_eq!(report.private_cause, Some(PrivateCause::NotUsed));
    let remedy = report.remedy(Words::CommandLine).unwrap();
    assert!(remedy.contains("Agent::from_env()"), "{remedy}");
}

#[test]
fn small_pages_become_large_ones_as_told() {
    let Some(mounted) = Mounted::new(&["--size", "64MiB", "--huge", "never"]) else {
        return;
    };
    let stat = || {
        run(tetris()
            .args(["stat", "--format", "json", "--store"])
            .arg(&mounted.dir))
    };
    assert_eq!(stat().expect(0).json()["huge"], Value::Null);
    let remedy = PrivateCause::SmallPages.remedy(Words::CommandLine, &mounted.dir);
    let args = remedy
        .split('`')
        .nth(1)
        .unwrap()
        .replace("sudo tetris ", "");
    let changed = run(tetris().args(args.split(' ')));
    if changed.code != Some(0) {
        skipped(format_args!(
            "this kernel has no huge pages for tmpfs: {}",
            changed.stderr
        ));
        return;
    }
    assert_eq!(stat().expect(0).json()["huge"], "within_size");
}
