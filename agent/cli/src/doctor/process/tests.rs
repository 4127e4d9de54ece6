//! Folders that look like those of processes.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use tempfile::TempDir;
use tetris_store_layout::{Access, CreateOptions, Store};

use super::*;
use crate::doctor::check::Status as CheckStatus;
use tetris_agent::store_location::StoreLocation;

/// A store, and a process in whose tree it is at `/store`.
struct Simulated {
    _store_dir: TempDir,
    dir: TempDir,
    seen: SeenStore,
    store: Store,
}

impl Simulated {
    fn new() -> Self {
        let store_dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = store_dir.path().join("store");
        let store = Store::create(&root, &CreateOptions::default()).unwrap();
        drop(store.publish(&vec![7; 100_000], Access::ReadOnly).unwrap());
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        symlink(&root, dir.path().join("root/store")).unwrap();
        let user = geteuid();
        let status = format!("Name:\tpython3\nState:\tS (sleeping)\nUid:\t0\t{user}\t0\t0\n");
        fs::write(dir.path().join("status"), status).unwrap();
        fs::write(
            dir.path().join("environ"),
            "TETRIS_STORE=/store\0TETRIS_PATCH=1\0",
        )
        .unwrap();
        fs::write(dir.path().join("smaps"), "").unwrap();
        symlink("/usr/bin/python3.12", dir.path().join("exe")).unwrap();
        Self {
            seen: SeenStore::at(&StoreLocation::named(&root)),
            _store_dir: store_dir,
            dir,
            store,
        }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// A region of the store's one object, in its tree.
    fn object_region(&self, anonymous_kib: u64) -> String {
        let object = self.store.objects().unwrap().objects[0];
        let (major, minor) = object.device;
        format!(
            "7f0000000000-7f0000019000 r--p 00000000 {major:02x}:{minor:02x} {}   /store/objects-v1/{}\n\
             Rss:                 100 kB\nAnonymous:           {anonymous_kib} kB\n",
            object.inode,
            object.object.file_name()
        )
    }

    fn section(&self) -> Section {
        let folder = ProcessFolder::at(self.dir.path().to_owned(), 4242);
        of_folder(&folder, &self.seen)
    }
}

fn check<'s>(section: &'s Section, name: &str) -> &'s Check {
    let check = section.checks.iter().find(|check| check.name == name);
    check.unwrap_or_else(|| panic!("no check {name}: {section:?}"))
}

#[test]
fn a_process_that_maps_an_object_shares_it() {
    let process = Simulated::new();
    process.write("smaps", process.object_region(0));
    let section = process.section();
    assert_eq!(section.status(), CheckStatus::Note, "{section:?}");
    assert_eq!(check(&section, "shared").facts["objects"], 1);
    assert_eq!(check(&section, "shared").facts["resident_bytes"], 100 << 10);
    assert_eq!(check(&section, "its store").facts["same"], true);
    assert!(
        section
            .checks
            .iter()
            .all(|check| check.name != "reason" && check.name != "copied")
    );
}

#[test]
fn a_process_with_a_private_copy_is_told_the_reason() {
    let process = Simulated::new();
    process.write(
        "smaps",
        "7f00-7f0010000000 rw-p 00000000 00:00 0 \nRss: 900000 kB\nAnonymous: 900000 kB\n",
    );
    let section = process.section();
    assert_eq!(check(&section, "private").facts["bytes"], 900_000_u64 << 10);
    let reason = check(&section, "reason");
    assert_eq!(reason.status, CheckStatus::Warning);
    assert_eq!(reason.facts["reason"], "not-loaded");
    process.write("environ", "");
    assert_eq!(
        check(&process.section(), "reason").facts["reason"],
        "unpatched"
    );
}

#[test]
fn written_weights_are_counted_as_copied() {
    let process = Simulated::new();
    process.write("smaps", process.object_region(40));
    assert_eq!(check(&process.section(), "copied").facts["bytes"], 40 << 10);
}

#[test]
fn a_store_that_is_not_in_the_process_s_tree_is_a_warning() {
    let process = Simulated::new();
    process.write("environ", "TETRIS_STORE=/elsewhere\0");
    let section = process.section();
    let store = check(&section, "its store");
    assert_eq!(store.status, CheckStatus::Warning);
    assert_eq!(store.facts["cause"], "no-store");
    assert_eq!(store.facts["directory"], "/elsewhere");
}

#[test]
fn a_process_that_is_not_there_and_one_that_is_closed_are_told_apart() {
    let process = Simulated::new();
    fs::remove_file(process.dir.path().join("status")).unwrap();
    let section = process.section();
    assert!(
        check(&section, "process").found.contains("no process 4242"),
        "{section:?}"
    );
    let process = Simulated::new();
    // Reading a directory is an error other than that of a process that has ended.
    fs::remove_file(process.dir.path().join("smaps")).unwrap();
    fs::create_dir(process.dir.path().join("smaps")).unwrap();
    let section = process.section();
    let closed = check(&section, "process");
    assert_eq!(closed.status, CheckStatus::Failure);
    assert!(
        closed
            .remedy
            .as_ref()
            .unwrap()
            .contains("sudo tetris doctor --pid 4242")
    );
}

#[test]
fn hostile_files_of_a_process_are_survived() {
    let process = Simulated::new();
    let garbage: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for name in ["smaps", "environ", "status"] {
        process.write(name, &garbage);
        let _section = process.section();
    }
}

#[test]
fn this_process_can_be_looked_at() {
    let seen = SeenStore::at(&StoreLocation::named("/nowhere"));
    let pid = std::process::id();
    let section = of_folder(&ProcessFolder::of(pid), &seen);
    let process = check(&section, "process");
    assert_eq!(
        process.facts["user"],
        fs::metadata(Path::new("/proc/self")).unwrap().uid()
    );
    let program = process.facts["program"].as_str().unwrap();
    assert_eq!(Path::new(program), std::env::current_exe().unwrap());
    assert!(check(&section, "private").facts["bytes"].as_u64().unwrap() > 0);
}
