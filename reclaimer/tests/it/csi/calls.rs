//! Volumes over their lives: published, published again, taken away, and what else is at the
//! target.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use tetris_node::csi::PerNamespace;
use tetris_store_layout::{SOCKET_USER, Store};
use tetris_wire::BoundSocket;
use tonic::Code;

use crate::csi::fixture::{Driver, Host, request};
use tetris_test_support::api::uid_of;

/// Mounts at a path, topmost last.
pub fn mounts(path: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let point = format!(" {} ", path.display());
    let there = all.lines().filter(|line| line.contains(&point));
    there.map(str::to_owned).collect()
}

/// The kernel's word that nothing can be written there, even by root.
pub fn expect_read_only(target: &Path) {
    let refused = fs::write(target.join("new"), "x").unwrap_err();
    assert_eq!(
        refused.raw_os_error(),
        Some(Errno::EROFS as i32),
        "{refused}"
    );
    let store_file = fs::OpenOptions::new()
        .write(true)
        .open(target.join("locks"));
    let refused = store_file.unwrap_err();
    // The owner, who has no id on an idmapped mount, is looked at before the mount.
    let expected = [Errno::EROFS as i32, Errno::EACCES as i32];
    let found = refused.raw_os_error();
    assert!(
        found.is_some_and(|found| expected.contains(&found)),
        "{refused}"
    );
    let refused = fs::remove_file(target.join("store")).unwrap_err();
    assert_eq!(
        refused.raw_os_error(),
        Some(Errno::EROFS as i32),
        "{refused}"
    );
}

#[test]
fn publish_and_unpublish_can_be_repeated_and_outlive_the_service() {
    let Some(host) = Host::new() else { return };
    let store = host.store("a", &[]);
    let start = || Driver::start(&host.config(), vec![store.clone()]);
    let driver = start();
    let target = host.target("pod");
    driver.unpublish(&target).unwrap();
    driver
        .unpublish(&host.kubelet().join("pods/none/volumes/x/mount"))
        .unwrap();
    driver.publish(request(&target, "blue")).unwrap();
    expect_read_only(&target);
    let first = mounts(&target);
    assert_eq!(first.len(), 1);
    assert!(first[0].contains(" ro,nosuid,nodev,noexec"), "{first:?}");
    driver.publish(request(&target, "blue")).unwrap();
    assert_eq!(mounts(&target), first);
    driver.kill();
    // After a crash, sockets and mounts are still there.
    let driver = start();
    driver.publish(request(&target, "blue")).unwrap();
    assert_eq!(mounts(&target), first);
    driver.stop().unwrap();
    assert_eq!(mounts(&target), first);
    let driver = start();
    driver.unpublish(&target).unwrap();
    assert!(!target.exists());
    driver.unpublish(&target).unwrap();
    driver.stop().unwrap();
    Store::open(&store.path).unwrap();
}

#[test]
fn a_daemons_socket_is_reached_through_the_read_only_mount() {
    let Some(host) = Host::new() else { return };
    let store = host.store("a", &[]);
    let driver = Driver::start(&host.config(), vec![store.clone()]);
    let target = host.target("pod");
    driver.publish(request(&target, "blue")).unwrap();
    // Bound after the pod got its mount, as when the daemon starts again.
    let (listener, _bound) = BoundSocket::bind(&store.path.join("daemon")).unwrap();
    listener.set_nonblocking(false).unwrap();
    // Given to the user that the mount shows.
    let user = Some(SOCKET_USER);
    std::os::unix::fs::lchown(store.path.join("daemon"), user, user).unwrap();
    UnixStream::connect(target.join("daemon")).unwrap();
    listener.accept().unwrap();
    driver.unpublish(&target).unwrap();
    driver.stop().unwrap();
}

#[test]
fn many_at_once_make_one_mount() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &[])]);
    let targets: Vec<_> = (0..4)
        .map(|pod| host.target(&format!("pod-{pod}")))
        .collect();
    let requests = targets
        .iter()
        .flat_map(|target| vec![request(target, "blue"); 4]);
    for answer in driver.publish_all(requests.collect()) {
        answer.unwrap();
    }
    for target in &targets {
        assert_eq!(mounts(target).len(), 1);
        driver.unpublish(target).unwrap();
    }
    driver.stop().unwrap();
}

#[test]
fn what_else_is_at_the_target_is_not_touched() {
    let Some(host) = Host::new() else { return };
    let stores = vec![host.store("a", &["blue"]), host.store("b", &["red"])];
    let driver = Driver::start(&host.config(), stores);
    let target = host.target("pod");
    driver.publish(request(&target, "blue")).unwrap();
    let error = driver.publish(request(&target, "red")).unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists);
    assert!(error.message().contains("directory `/a`"), "{error}");
    assert_eq!(mounts(&target).len(), 1);
    // A symbolic link does not lead elsewhere, neither at the end nor on the way.
    let elsewhere = host.kubelet().join("elsewhere");
    fs::create_dir_all(elsewhere.join("mount")).unwrap();
    let link = host.target("linked");
    std::os::unix::fs::symlink(elsewhere.join("mount"), &link).unwrap();
    let dir = host
        .target("other")
        .parent()
        .unwrap()
        .with_file_name("link");
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    for target in [&link, &dir.join("mount")] {
        let error = driver.publish(request(target, "blue")).unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{error}");
        driver.unpublish(target).unwrap_err();
    }
    assert_eq!(mounts(&elsewhere.join("mount")).len(), 0);
    // Files of others in the directory are not removed.
    driver.unpublish(&target).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("precious"), "x").unwrap();
    let error = driver.unpublish(&target).unwrap_err();
    assert!(error.message().contains("cannot remove"), "{error}");
    assert!(target.join("precious").exists());
    driver.stop().unwrap();
}

#[test]
fn a_writable_mount_of_the_store_is_mended() {
    let Some(host) = Host::new() else { return };
    let store = host.store("a", &[]);
    let driver = Driver::start(&host.config(), vec![store.clone()]);
    let target = host.target("pod");
    fs::create_dir(&target).unwrap();
    let none = None::<&str>;
    mount(Some(&store.path), &target, none, MsFlags::MS_BIND, none).unwrap();
    driver.publish(request(&target, "blue")).unwrap();
    expect_read_only(&target);
    assert_eq!(mounts(&target).len(), 1);
    driver.unpublish(&target).unwrap();
    driver.stop().unwrap();
}

#[test]
fn namespaces_get_stores_of_their_own_within_the_limit() {
    let Some(host) = Host::new() else { return };
    let mut config = host.config();
    config.per_namespace = Some(PerNamespace {
        name: "ns-{namespace}".to_owned(),
        path: host.tmpfs().join("ns-{namespace}"),
        namespaces: Vec::new(),
        limit: 2,
    });
    let driver = Driver::start(&config, Vec::new());
    let targets: Vec<_> = (0..3)
        .map(|pod| host.target(&format!("pod-{pod}")))
        .collect();
    driver.publish(request(&targets[0], "blue")).unwrap();
    driver.publish(request(&targets[1], "red")).unwrap();
    let id = |target: &Path| Store::open(target).unwrap().id();
    assert_ne!(id(&targets[0]), id(&targets[1]));
    assert!(!Store::open(&targets[0]).unwrap().is_writable());
    let error = driver.publish(request(&targets[2], "green")).unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(
        error.message().contains("`csi.per_namespace.limit`"),
        "{error}"
    );
    // A second pod of a namespace gets the same one.
    driver.publish(request(&targets[2], "blue")).unwrap();
    assert_eq!(id(&targets[0]), id(&targets[2]));
    let mut other = request(&targets[2], "blue");
    other
        .volume_context
        .insert("store".to_owned(), "ns-red".to_owned());
    let error = driver.publish(other).unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    let names = |driver: &Driver| -> Vec<_> {
        let told = driver.told.lock().unwrap();
        told.iter().map(|store| store.name.clone()).collect()
    };
    let all = ["blue", "red"].map(|name| format!("ns-{name}.{}", uid_of(name, 1)));
    assert_eq!(names(&driver), all);
    assert!(host.tmpfs().join(&all[0]).is_dir());
    driver.stop().unwrap();
    // A later driver finds them there.
    let driver = Driver::start(&config, Vec::new());
    driver.publish(request(&targets[2], "blue")).unwrap();
    assert_eq!(names(&driver), [""; 0]);
    driver.stop().unwrap();
}

#[test]
fn without_the_tmpfs_no_store_is_made() {
    let Some(host) = Host::new() else { return };
    let mut config = host.config();
    let unmounted = host.tmpfs().join("not-a-mount");
    fs::create_dir(&unmounted).unwrap();
    config.per_namespace = Some(PerNamespace {
        name: "{namespace}".to_owned(),
        path: unmounted.join("{namespace}"),
        namespaces: vec!["blue".to_owned()],
        limit: 2,
    });
    let driver = Driver::start(&config, Vec::new());
    let error = driver
        .publish(request(&host.target("pod"), "blue"))
        .unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("no tmpfs is mounted"), "{error}");
    assert_eq!(fs::read_dir(&unmounted).unwrap().count(), 0);
    let error = driver
        .publish(request(&host.target("pod"), "red"))
        .unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    driver.stop().unwrap();
}
