//! The owner of a store needs no capabilities: objects of mode 0444 can be reclaimed, and are 0444
//! again whenever an attempt has failed (LAYOUT.md 5.3, R1).

use tetris_tests::process::Worker;
use tetris_tests::skip::is_root;
use tetris_tests::task::{Job, OwnerReport, Task};
use tetris_tests::{skip, worker_exe};

const NOBODY: u32 = 65_534;

/// Runs as another user for root, else as the user who runs the test.
fn owner() -> Option<u32> {
    is_root().then_some(NOBODY)
}

fn owned_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let uid = owner().map(nix::unistd::Uid::from_raw);
    nix::unistd::chown(dir.path(), uid, None).unwrap();
    dir
}

#[test]
fn an_owner_without_capabilities_reclaims_and_leaves_objects_read_only() {
    let dir = owned_directory();
    let task = Task::Owner {
        store: dir.path().to_owned(),
    };
    let job = Job { task, uid: owner() };
    let report: OwnerReport = Worker::start(worker_exe!(), &job).finish().result();
    assert!(report.busy_stayed && report.freed, "{report:?}");
    let modes = (report.mode_after_busy, report.mode_after_crash);
    assert_eq!(modes, (0o444, 0o444), "{:o} and {:o}", modes.0, modes.1);
}

/// Several processes publish, check and reclaim one object again and again.
fn contend(uid: Option<u32>) {
    let dir = owned_directory();
    let task = Task::Contend {
        store: dir.path().to_owned(),
        rounds: 5_000,
    };
    let job = Job { task, uid };
    let mut workers: Vec<_> = (0..4).map(|_| Worker::start(worker_exe!(), &job)).collect();
    workers.iter_mut().for_each(Worker::wait_ready);
    workers.iter_mut().for_each(Worker::go);
    for worker in workers {
        worker.finish().result::<()>();
    }
}

#[test]
fn a_reclaimer_never_removes_a_successor_of_what_it_opened() {
    contend(None);
}

#[test]
fn owners_without_capabilities_can_reclaim_the_same_object_at_once() {
    if !is_root() {
        skip!("needs root to become another user");
    }
    contend(owner());
}
