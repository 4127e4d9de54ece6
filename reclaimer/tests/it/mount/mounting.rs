//! Real mounts, in a namespace of each test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use tetris_node::mount::{
    Action, Changes, Ensured, HugePages, MountConfig, MountError, ObservedPath, ensure_mount,
    observe,
};
use tetris_node::store::StoreConfig;
use tetris_store_layout::Store;

use tetris_test_support::mounts::{self, Place};

const MIB: u64 = 1 << 20;

fn config(path: PathBuf) -> MountConfig {
    MountConfig {
        path,
        size_bytes: 16 * MIB,
        inodes: 500,
        huge: HugePages::WithinSize,
        noswap: true,
        selinux_context: None,
        user: 0,
    }
}

/// A place in its own namespace, below a shared mount as in a cluster; `None` where there can
/// be none.
fn place() -> Option<(Place, MountConfig)> {
    mounts::enter().then(|| {
        let dir = Place::default();
        mounts::tmpfs(dir.path(), "size=1m");
        mounts::propagation(dir.path(), nix::mount::MsFlags::MS_SHARED);
        let config = config(dir.path().join("deep/tetris"));
        (dir, config)
    })
}

fn entry_and_room(
    path: &Path,
) -> (
    tetris_node::mount::MountEntry,
    tetris_node::mount::TmpfsSize,
) {
    match observe(path).unwrap() {
        ObservedPath::Mounted { entry, room } => (*entry, room),
        found => panic!("{found:?}"),
    }
}

/// Options that this kernel was not said to lack.
fn expect_options(ensured: &Ensured, super_options: &[(&'static str, &str)]) {
    let (entry, _) = entry_and_room(&ensured.path);
    for (option, value) in super_options {
        let left_out = ensured.notes.iter().any(|note| note.option == *option);
        let found = entry.super_option(option);
        assert_eq!(
            found,
            (!left_out).then_some(*value),
            "{option} in {entry:?}, {:?}",
            ensured.notes
        );
    }
}

#[test]
fn it_is_created_with_its_directories_and_options() {
    let Some((_dir, config)) = place() else {
        return;
    };
    let ensured = ensure_mount(&config).unwrap();
    assert_eq!(ensured.action, Action::Create);
    assert_eq!((ensured.room.bytes, ensured.room.inodes), (16 * MIB, 500));
    let (entry, _) = entry_and_room(&config.path);
    assert_eq!(entry.fs_type, "tmpfs");
    for flag in ["nodev", "nosuid", "noexec", "rw"] {
        assert!(entry.has(flag), "{flag} in {entry:?}");
    }
    assert!(entry.shared, "{entry:?}");
    expect_options(&ensured, &[("noswap", ""), ("huge", "within_size")]);
    // This machine's kernel is known to every option, or names the one it does not know.
    for note in &ensured.notes {
        assert!(
            note.what.starts_with("left out, since this kernel"),
            "{note}"
        );
    }
}

#[test]
fn swap_and_huge_pages_are_as_asked_for() {
    let Some((_dir, mut config)) = place() else {
        return;
    };
    config.noswap = false;
    config.huge = HugePages::Never;
    ensure_mount(&config).unwrap();
    let (entry, _) = entry_and_room(&config.path);
    assert_eq!(entry.super_option("noswap"), None);
    assert_eq!(entry.super_option("huge").unwrap_or("never"), "never");
    // What can be changed is, and the rest is said.
    config.noswap = true;
    config.huge = HugePages::WithinSize;
    let ensured = ensure_mount(&config).unwrap();
    let changes = Changes {
        huge: Some(HugePages::WithinSize),
        ..Changes::default()
    };
    assert_eq!(ensured.action, Action::Remount(changes));
    expect_options(&ensured, &[("huge", "within_size")]);
    assert_eq!(ensured.notes[0].option, "noswap");
}

#[test]
fn a_second_time_nothing_happens() {
    let Some((_dir, config)) = place() else {
        return;
    };
    ensure_mount(&config).unwrap();
    let (first, _) = entry_and_room(&config.path);
    let again = ensure_mount(&config).unwrap();
    assert_eq!(again.action, Action::Adopt);
    assert_eq!(entry_and_room(&config.path).0, first);
}

#[test]
fn several_that_start_at_once_make_one_mount() {
    let Some((_dir, config)) = place() else {
        return;
    };
    let barrier = Barrier::new(4);
    let actions: Vec<_> = std::thread::scope(|scope| {
        let start = || {
            scope.spawn(|| {
                barrier.wait();
                ensure_mount(&config).unwrap().action
            })
        };
        let threads: Vec<_> = (0..4).map(|_| start()).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let created = actions.iter().filter(|action| **action == Action::Create);
    assert_eq!(created.count(), 1, "{actions:?}");
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let place = format!(" {} ", config.path.display());
    assert_eq!(mounts.matches(&place).count(), 1, "{mounts}");
}

#[test]
fn it_grows_in_place_and_shrinks_no_further_than_what_it_holds() {
    let Some((_dir, mut config)) = place() else {
        return;
    };
    ensure_mount(&config).unwrap();
    let file = config.path.join("file");
    fs::write(&file, vec![7; 8 << 20]).unwrap();
    let (before, _) = entry_and_room(&config.path);
    config.size_bytes = 32 * MIB;
    config.inodes = 900;
    let grown = ensure_mount(&config).unwrap();
    assert!(matches!(grown.action, Action::Remount(_)));
    assert_eq!((grown.room.bytes, grown.room.inodes), (32 * MIB, 900));
    let (after, _) = entry_and_room(&config.path);
    assert_eq!((before.id, &before.options), (after.id, &after.options));
    config.size_bytes = 4 * MIB;
    let error = ensure_mount(&config).unwrap_err().to_string();
    assert!(error.contains("8388608 bytes are in use"), "{error}");
    assert_eq!(entry_and_room(&config.path).1.bytes, 32 * MIB);
    config.size_bytes = 8 * MIB;
    assert_eq!(ensure_mount(&config).unwrap().room.bytes, 8 * MIB);
    assert_eq!(fs::read(&file).unwrap(), vec![7; 8 << 20]);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let Some((dir, mut config)) = place() else {
        return;
    };
    let refused = |config: &MountConfig| match ensure_mount(config).unwrap_err() {
        MountError::Refused { path, source } => (path, source.to_string()),
        error => panic!("{error}"),
    };
    config.path = dir.path().join("link");
    std::os::unix::fs::symlink("/", &config.path).unwrap();
    assert!(refused(&config).1.contains("a symbolic link"));
    config.path = dir.path().join("file");
    fs::write(&config.path, "x").unwrap();
    assert!(refused(&config).1.contains("no directory"));
    config.path = dir.path().join("full");
    fs::create_dir_all(config.path.join("something")).unwrap();
    assert!(refused(&config).1.contains("not empty"));
    config.path = dir.path().join("bind");
    fs::create_dir(&config.path).unwrap();
    let (none, bind) = (None::<&str>, nix::mount::MsFlags::MS_BIND);
    let full = dir.path().join("full");
    nix::mount::mount(Some(&full), &config.path, none, bind, none).unwrap();
    let (path, reason) = refused(&config);
    assert_eq!(path, config.path);
    assert!(reason.contains("directory `/full` of a tmpfs"), "{reason}");
    assert!(config.path.join("something").exists());
}

#[test]
fn a_private_mount_is_told_of() {
    let Some((dir, config)) = place() else { return };
    mounts::propagation(dir.path(), nix::mount::MsFlags::MS_PRIVATE);
    let ensured = ensure_mount(&config).unwrap();
    let note = ensured.notes.last().unwrap();
    assert_eq!(note.option, "propagation");
    assert!(
        note.what.contains("mountPropagation: Bidirectional"),
        "{note}"
    );
}

#[test]
fn without_selinux_a_context_is_left_out_and_said() {
    if Path::new("/sys/fs/selinux/enforce").exists() {
        return;
    }
    let Some((_dir, mut config)) = place() else {
        return;
    };
    config.selinux_context = Some("system_u:object_r:container_file_t:s0".to_owned());
    let ensured = ensure_mount(&config).unwrap();
    let said = ensured
        .notes
        .iter()
        .any(|note| note.to_string() == "`context`: left out: SELinux is off");
    assert!(said, "{:?}", ensured.notes);
}

#[test]
fn stores_are_made_on_it_once_and_a_bad_one_does_not_stop_the_others() {
    let Some((dir, config)) = place() else { return };
    let ensured = ensure_mount(&config).unwrap();
    fs::create_dir_all(config.path.join("bad/something")).unwrap();
    let store = |name: &str, path: PathBuf| StoreConfig {
        name: name.to_owned(),
        path,
        namespaces: Vec::new(),
        own: false,
    };
    let elsewhere = dir.path().join("elsewhere");
    let stores = [
        store("a", config.path.join("a")),
        store("bad", config.path.join("bad")),
        store("elsewhere", elsewhere.clone()),
        store("b", config.path.join("b")),
    ];
    let error = ensured.create_stores(&stores).unwrap_err().to_string();
    assert!(error.contains("store `bad`"), "{error}");
    assert!(!elsewhere.exists());
    let id = |name: &str| Store::open(config.path.join(name)).unwrap().id();
    let (a, b) = (id("a"), id("b"));
    assert_ne!(a, b);
    ensured.create_stores(&stores[..1]).unwrap();
    assert_eq!(id("a"), a);
}
