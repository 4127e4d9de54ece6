//! Mounts of the driver in its container, as they appear on the host and in other containers.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tetris_node::mount::{HugePages, MountConfig, ensure_mount};

use crate::csi::calls::expect_read_only;
use crate::csi::fixture::{Driver, Host, request};
use tetris_test_support::mounts;

fn on_the_host(path: &std::path::Path) -> Option<String> {
    let all = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let point = format!(" {} ", path.display());
    all.lines()
        .find(|line| line.contains(&point))
        .map(str::to_owned)
}

#[test]
fn what_a_container_publishes_arrives_read_only_on_the_host_and_leaves_with_it() {
    let Some(host) = Host::new() else { return };
    let target = host.target("pod");
    let tmpfs = host.tmpfs().join("mounted-below");
    let host = std::sync::Arc::new(host);
    let (in_container, target_there, tmpfs_there) = (host.clone(), target.clone(), tmpfs.clone());
    let (published, is_published) = channel::<()>();
    let (unpublish, may_unpublish) = channel::<()>();
    let container = std::thread::spawn(move || {
        // As Bidirectional propagation: the mounts stay peers of the host's.
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let config = MountConfig {
            path: tmpfs_there,
            size_bytes: 8 << 20,
            inodes: 500,
            huge: HugePages::Never,
            noswap: false,
            selinux_context: None,
            user: 0,
        };
        ensure_mount(&config).unwrap();
        let store = in_container.store("mounted-below/a", &[]);
        let driver = Driver::start(&in_container.config(), vec![store]);
        driver.publish(request(&target_there, "blue")).unwrap();
        published.send(()).unwrap();
        may_unpublish.recv().unwrap();
        driver.unpublish(&target_there).unwrap();
        driver.stop().unwrap();
    });
    is_published.recv().unwrap();
    let line = on_the_host(&target).expect("it arrives on the host");
    assert!(line.contains(" ro,nosuid,nodev,noexec"), "{line}");
    expect_read_only(&target);
    // As a container runtime does for the pod: a bind mount of the volume.
    let pod: PathBuf = target.with_file_name("pod");
    fs::create_dir(&pod).unwrap();
    let none = None::<&str>;
    mount(Some(&target), &pod, none, MsFlags::MS_BIND, none).unwrap();
    expect_read_only(&pod);
    // The owner writes where it is mounted for writing, and pods see it.
    assert!(on_the_host(&tmpfs).is_some());
    fs::write(tmpfs.join("a/written"), "x").unwrap();
    assert_eq!(fs::read(pod.join("written")).unwrap(), b"x");
    unpublish.send(()).unwrap();
    container.join().unwrap();
    assert_eq!(on_the_host(&target), None);
    // The container that is gone leaves the tmpfs behind.
    assert_eq!(fs::read(tmpfs.join("a/written")).unwrap(), b"x");
}

#[test]
fn a_bind_that_is_remounted_read_only_is_what_this_guards_against() {
    let Some(host) = Host::new() else { return };
    let store = host.store("a", &[]);
    let target = host.target("pod");
    fs::create_dir(&target).unwrap();
    let there = target.clone();
    let container = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(Some(&store.path), &there, none, MsFlags::MS_BIND, none).unwrap();
        mounts::propagation(
            &there,
            MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY,
        );
        expect_read_only(&there);
    });
    container.join().unwrap();
    // Read-only in there, and writable out here.
    fs::write(target.join("new"), "x").unwrap();
}
