//! `init`: directories, and mounts where this test may make them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MntFlags, umount2};
use nix::unistd::geteuid;
use serde_json::Value;
use tempfile::TempDir;

use crate::site::{Run, run, skipped, tetris};

const NOBODY: u32 = 65_534;

/// A store on its own tmpfs, unmounted at the end whatever happens.
pub struct Mounted {
    pub dir: PathBuf,
    pub report: Value,
    _parent: TempDir,
}

impl Mounted {
    /// `None`, with the reason on stderr, where this process may not mount.
    pub fn new(options: &[&str]) -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new/store");
        if !may_mount(parent.path()) {
            return None;
        }
        let mut command = tetris();
        command
            .arg("init")
            .arg(&dir)
            .args(options)
            .args(["--format", "json"]);
        let mut mounted = Self {
            dir,
            report: Value::Null,
            _parent: parent,
        };
        mounted.report = run(&mut command).expect(0).json();
        Some(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.dir, MntFlags::MNT_DETACH);
    }
}

/// Tries it: root in a container may not.
fn may_mount(dir: &Path) -> bool {
    use nix::mount::{MsFlags, mount};
    let tried = mount(
        Some("test"),
        dir,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=4k"),
    );
    if let Err(error) = tried {
        skipped(format_args!("cannot mount a tmpfs: {error}"));
        return false;
    }
    umount2(dir, MntFlags::MNT_DETACH).unwrap();
    true
}

fn is_mounted(dir: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == dir.to_str())
}

fn init(dir: &Path, options: &[&str]) -> Run {
    run(tetris().arg("init").arg(dir).args(options))
}

#[test]
fn a_directory_becomes_a_store_and_its_cost_is_said() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = parent.path().join("a/store");
    let first = init(&dir, &["--no-mount", "--format", "json"]).expect(0);
    let json = first.json();
    assert_eq!(
        (&json["created"], &json["mounted"]),
        (&true.into(), &false.into())
    );
    assert_eq!(json["own_mount"], false);
    assert!(first.stderr.contains("no size of its own"), "{first:?}");
    let again = init(&dir, &["--no-mount"]).expect(0);
    assert!(again.stdout.contains("was there already"), "{again:?}");
    assert!(
        again.stdout.contains(json["id"].as_str().unwrap()),
        "{again:?}"
    );
}

#[test]
fn the_directory_can_be_named_by_the_global_option_and_closed_to_others() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = parent.path().join("store");
    let mut command = tetris();
    command
        .arg("--store")
        .arg(&dir)
        .args(["init", "--no-mount", "--mode", "0700"]);
    run(&mut command).expect(0);
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_directory_that_will_not_do_is_refused_and_left_as_it_was() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(parent.path().join("mine"), b"precious").unwrap();
    for options in [&[][..], &["--no-mount"]] {
        let refused = init(parent.path(), options).expect(3);
        assert!(refused.stderr.contains("not empty"), "{refused:?}");
        assert!(!is_mounted(parent.path()));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let on_disk = init(disk.path(), &["--no-mount"]);
    if on_disk.code == Some(0) {
        skipped("/var/tmp is a tmpfs here");
        return;
    }
    let refused = on_disk.expect(3);
    assert!(refused.stderr.contains("needs tmpfs"), "{refused:?}");
    assert!(!refused.stderr.contains("0x"), "by its name: {refused:?}");
    let new = disk.path().join("a/new");
    init(&new, &["--no-mount"]).expect(3);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn others_than_root_get_a_directory() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(parent.path(), Permissions::from_mode(0o777)).unwrap();
    // Where another user can reach it.
    let program = parent.path().join("tetris");
    // By another process: this one's other threads fork, and a child that has a program open for
    // writing keeps it from being executed.
    let mut copy = Command::new("cp");
    let copied = copy
        .arg(env!("CARGO_BIN_EXE_tetris"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let command = || {
        let mut command = Command::new(&program);
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
            .env_remove("TETRIS_STORE")
            .current_dir("/")
            .arg("init");
        command
    };
    let dir = parent.path().join("store");
    let sized = run(command().arg(&dir).args(["--size", "1GiB"])).expect(2);
    assert!(sized.stderr.contains("run this as root"), "{sized:?}");
    assert!(!dir.exists());
    let ready = run(command().arg(&dir)).expect(0);
    assert!(
        ready.stderr.contains("as root `tetris init` would mount"),
        "{ready:?}"
    );
    assert!(ready.stdout.contains("created"), "{ready:?}");
}

#[test]
fn root_mounts_a_tmpfs_with_huge_pages_and_a_size() {
    let Some(mounted) = Mounted::new(&["--size", "64MiB"]) else {
        return;
    };
    let report = &mounted.report;
    assert_eq!(
        (&report["mounted"], &report["created"]),
        (&true.into(), &true.into())
    );
    assert_eq!(report["capacity_bytes"], 64 << 20);
    assert_eq!(report["inodes"], 65_536);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(mounted.dir.to_str().unwrap()))
        .unwrap();
    for flag in ["nosuid", "nodev", "noexec", "noatime", "size=65536k"] {
        assert!(line.contains(flag), "{flag}: {line}");
    }
    assert_eq!(
        mounted.dir.metadata().unwrap().permissions().mode() & 0o777,
        0o755
    );
    if report["huge"].is_null() {
        skipped("this kernel has no huge pages for tmpfs");
    } else {
        assert_eq!(report["huge"], "within_size");
        let pages = &report["pages"];
        assert_eq!(pages["of"], "new-file");
        // Memory may be in pieces; nothing else excuses small pages here.
        if pages["large_bytes"] != pages["looked_at_bytes"] {
            let reason = &pages["small_because"]["name"];
            assert!(reason == "memory" || reason == "shmem-enabled", "{pages}");
        }
    }
    let again = init(&mounted.dir, &[]).expect(0);
    assert!(again.stdout.contains("was there already"), "{again:?}");
    assert!(again.stdout.contains("mounted before"), "{again:?}");
}

#[test]
fn a_size_beyond_the_memory_is_warned_of_with_both_figures() {
    let parent = tempfile::tempdir().unwrap();
    if !may_mount(parent.path()) {
        return;
    }
    let mounted = Mounted {
        dir: parent.path().join("store"),
        report: Value::Null,
        _parent: parent,
    };
    let large = init(&mounted.dir, &["--size", "8TiB"]).expect(0);
    let warning = large.stderr.lines().find(|line| line.contains("of RAM"));
    let warning = warning.unwrap_or_default();
    assert!(
        warning.contains("8.00 TiB") && warning.contains("GiB of RAM"),
        "{large:?}"
    );
    let small = init(&mounted.dir, &["--size", "64MiB"]).expect(0);
    assert!(!small.stderr.contains("of RAM"), "{small:?}");
}

#[test]
fn a_mounted_store_can_grow_and_shrink() {
    let Some(mounted) = Mounted::new(&["--size", "64MiB", "--huge", "never"]) else {
        return;
    };
    assert_eq!(mounted.report["huge"], Value::Null);
    let pages = &mounted.report["pages"];
    assert_eq!(
        (&pages["of"], &pages["large_bytes"]),
        (&"new-file".into(), &0.into())
    );
    let reason = pages["small_because"]["name"].as_str().unwrap();
    assert!(
        ["mount-option", "shmem-enabled", "kernel"].contains(&reason),
        "{pages}"
    );
    let resize = |size| init(&mounted.dir, &["--format", "json", "--size", size]);
    let grown = resize("128MiB").expect(0).json();
    assert_eq!(
        (&grown["remounted"], &grown["created"]),
        (&true.into(), &false.into())
    );
    assert_eq!(grown["capacity_bytes"], 128 << 20);
    assert_eq!(grown["id"], mounted.report["id"]);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(mounted.dir.to_str().unwrap()))
        .unwrap();
    assert!(
        line.contains("nosuid,nodev,noexec,noatime"),
        "a remount keeps them: {line}"
    );
    let store = tetris_agent::Store::open(&mounted.dir).unwrap();
    let published = store
        .publish(&vec![7; 8 << 20], tetris_agent::Access::ReadOnly)
        .unwrap();
    let shrunk = resize("4MiB").expect(1);
    assert!(
        shrunk
            .stderr
            .contains("are in use; free some with `tetris gc`"),
        "{shrunk:?}"
    );
    assert_eq!(&published.mapping[..4], [7; 4]);
    // There is an object to look at now, which takes no right to write.
    let stat = run(tetris()
        .args(["stat", "--format", "json", "--store"])
        .arg(&mounted.dir));
    let pages = &stat.expect(0).json()["pages"];
    assert_eq!(
        (&pages["of"], &pages["large_bytes"]),
        (&"objects".into(), &0.into())
    );
    let stat = run(tetris().args(["stat", "--store"]).arg(&mounted.dir)).expect(0);
    assert!(
        stat.stderr.contains("models have 4 KiB pages here"),
        "{stat:?}"
    );
    resize("32MiB").expect(0);
    drop(published);
}

#[test]
fn a_tmpfs_that_somebody_else_mounted_is_adopted() {
    use nix::mount::{MsFlags, mount};
    let parent = tempfile::tempdir().unwrap();
    if !may_mount(parent.path()) {
        return;
    }
    let mounted = Mounted {
        dir: parent.path().to_owned(),
        report: Value::Null,
        _parent: parent,
    };
    let data = Some("size=16m");
    mount(
        Some("theirs"),
        &mounted.dir,
        Some("tmpfs"),
        MsFlags::empty(),
        data,
    )
    .unwrap();
    let adopted = init(&mounted.dir, &["--format", "json"]).expect(0);
    assert!(adopted.stderr.contains("4 KiB pages"), "{adopted:?}");
    let json = adopted.json();
    assert_eq!(
        (&json["own_mount"], &json["mounted"]),
        (&true.into(), &false.into())
    );
    assert_eq!(json["capacity_bytes"], 16 << 20);
}

#[test]
fn what_fails_after_mounting_is_unmounted_again() {
    let parent = tempfile::tempdir().unwrap();
    if !may_mount(parent.path()) {
        return;
    }
    let dir = parent.path().join("a/b/store");
    // So few descriptors that the store cannot be opened.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 7; exec \"$0\" init \"$1\" --size 4MiB"]);
    shell.arg(env!("CARGO_BIN_EXE_tetris")).arg(&dir);
    let failed = run(&mut shell).expect(1);
    assert!(
        failed.stderr.contains("objects-v1") || failed.stderr.contains("-v1"),
        "{failed:?}"
    );
    assert!(!is_mounted(&dir));
    assert_eq!(
        fs::read_dir(parent.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn root_that_may_not_mount_gets_a_directory() {
    let mut drop_caps = Command::new("setpriv");
    drop_caps.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
    let tried = drop_caps.arg("true").status();
    if !geteuid().is_root() || !tried.is_ok_and(|status| status.success()) {
        skipped("needs root and setpriv, to give up the right to mount");
        return;
    }
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = parent.path().join("store");
    let command = |options: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
        command
            .arg(env!("CARGO_BIN_EXE_tetris"))
            .arg("init")
            .arg(&dir)
            .args(options);
        run(&mut command)
    };
    let sized = command(&["--size", "64MiB"]).expect(1);
    assert!(sized.stderr.contains("not permitted"), "{sized:?}");
    assert!(!dir.exists());
    let ready = command(&["--format", "json"]).expect(0);
    assert!(
        ready.stderr.contains("warning: cannot mount a tmpfs"),
        "{ready:?}"
    );
    assert_eq!(ready.json()["own_mount"], false);
}

#[test]
fn a_damaged_store_is_recreated_unless_it_is_in_use() {
    use crate::site::Site;
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    let loaded = site.fixture.agent.load(&path).unwrap();
    let objects = loaded.objects().count();
    fs::write(site.store_dir().join("store"), b"damage").unwrap();
    let refused = site.run(&["stat"]).expect(3);
    let step = format!("tetris init --recreate {}", site.store_dir().display());
    assert!(refused.stderr.contains(&step), "{refused:?}");
    let recreate = |more: &[&str]| {
        let mut command = tetris();
        command
            .args(["init", "--recreate"])
            .args(more)
            .arg(site.store_dir());
        run(&mut command)
    };
    let refused = recreate(&[]).expect(1);
    let holder = format!("held by {} ", std::process::id());
    assert!(refused.stderr.contains(&holder), "{refused:?}");
    assert!(refused.stderr.contains("--force"), "{refused:?}");
    let report = recreate(&["--force", "--format", "json"]).expect(0);
    assert!(report.stderr.contains("restart these"), "{report:?}");
    let report = report.json();
    assert_eq!(report["recreated"], true);
    assert_eq!(report["lost_objects"], objects);
    assert_eq!(report["lost_held_objects"], objects);
    // Who had the model still has it; others publish it anew.
    let before = loaded.tensor("layer.0.weight").unwrap().bytes().to_vec();
    assert_eq!(
        site.load(&path)["models"][0]["bytes_new"],
        loaded.report().bytes_total()
    );
    assert_eq!(loaded.tensor("layer.0.weight").unwrap().bytes(), before);
    drop(loaded);
    // A sound store that no one uses needs no force.
    let again = recreate(&[]).expect(0);
    assert!(again.stdout.contains("recreated"), "{again:?}");
    assert_eq!(site.json(&["stat"])["objects"], 0);
}

#[test]
fn only_a_store_is_recreated() {
    let parent = tempfile::tempdir_in("/dev/shm").unwrap();
    let missing = parent.path().join("missing");
    for dir in [missing.as_path(), parent.path()] {
        let mut command = tetris();
        run(command.args(["init", "--recreate", "--force"]).arg(dir)).expect(3);
    }
    assert!(!missing.exists());
    run(tetris().arg("init").arg("--no-mount").arg(parent.path())).expect(0);
    let file = parent.path().join("thesis.tex");
    fs::write(&file, b"x").unwrap();
    let refused = run(tetris().args(["init", "--recreate"]).arg(parent.path())).expect(3);
    assert!(refused.stderr.contains("not empty"), "{refused:?}");
    assert!(file.exists() && parent.path().join("store").exists());
}
