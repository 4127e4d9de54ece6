//! The status of a process, as the kernel shows it to others.

use std::fs;

use nix::unistd::{Gid, Uid, chown, geteuid, setgid, setgroups, setuid};
use tetris_sandbox::{SandboxStatus, enter};

use crate::{Ground, Test, broker, harness};

pub const TESTS: &[Test] = &[
    (
        "status::another_user_has_no_capability_and_no_more_rights_than_its_profile",
        another_user,
    ),
    ("status::root_says_that_it_has_capabilities", root),
    ("status::a_process_without_a_sandbox_says_why", without),
];

/// The user of the broker.
const USER: u32 = 9460;

fn another_user(ground: &Ground) {
    if !geteuid().is_root() {
        return harness::skipped(TESTS[0].0, "needs root to become another user");
    }
    chown(&ground.store(), Some(USER.into()), Some(USER.into())).unwrap();
    setgroups(&[]).unwrap();
    setgid(Gid::from_raw(USER)).unwrap();
    setuid(Uid::from_raw(USER)).unwrap();
    let status = enter(&broker(ground)).unwrap();
    assert_eq!((status.uid, status.capabilities.as_str()), (USER, "none"));
    fs::write(ground.store().join("file"), "x").unwrap();
    let threads: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(std::thread::park))
        .collect();
    let tasks: Vec<_> = fs::read_dir("/proc/self/task").unwrap().flatten().collect();
    assert_eq!(tasks.len(), 4);
    for task in tasks {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        for line in [
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "Uid:\t9460\t9460\t9460\t9460",
            "Gid:\t9460\t9460\t9460\t9460",
            "CapInh:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapAmb:\t0000000000000000",
        ] {
            assert!(
                status.lines().any(|found| found == line),
                "{line}: {status}"
            );
        }
    }
    for thread in threads {
        thread.thread().unpark();
        thread.join().unwrap();
    }
}

fn root(ground: &Ground) {
    if !geteuid().is_root() {
        return harness::skipped(TESTS[1].0, "needs root");
    }
    let status = enter(&broker(ground)).unwrap();
    assert_eq!(status.uid, 0);
    assert!(status.capabilities.starts_with("0x"), "{status:?}");
    assert!(status.has_capabilities());
    assert!(status.seccomp);
}

fn without(_: &Ground) {
    let status = SandboxStatus::without("processes.sandbox is \"off\"").unwrap();
    assert!(!status.seccomp && status.landlock.is_none());
    let missing: Vec<_> = status.missing().collect();
    let because = "processes.sandbox is \"off\"";
    assert_eq!(missing, [("seccomp", because), ("landlock", because)]);
}
