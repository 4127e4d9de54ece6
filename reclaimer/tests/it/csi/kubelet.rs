//! A kubelet's steps around the calls (`pkg/volume/csi/csi_mounter.go`), and leftovers of a node or
//! pod that ended.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sched::{CloneFlags, unshare};
use tonic::Code;

use crate::csi::calls::{expect_read_only, mounts};
use crate::csi::fixture::{Driver, Host, request};
use tetris_test_support::mounts;

/// The directory of a volume, as the kubelet makes it before the call.
struct Volume {
    dir: PathBuf,
}

impl Volume {
    fn set_up(host: &Host, pod: &str) -> Self {
        let volumes = "volumes/kubernetes.io~csi/tetris-store";
        let dir = host.kubelet().join("pods").join(pod).join(volumes);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o750).create(&dir).unwrap();
        fs::write(
            dir.join("vol_data.json"),
            r#"{"driverName":"csi.tetris.dev"}"#,
        )
        .unwrap();
        Self { dir }
    }

    fn target(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// The kubelet's steps after a call that unpublished the volume: the target's directory may
    /// exist, but must be empty.
    fn tear_down(self) {
        assert_eq!(mounts(&self.target()).len(), 0);
        let _gone_already = fs::remove_dir(self.target());
        fs::remove_file(self.dir.join("vol_data.json")).unwrap();
        fs::remove_dir(&self.dir).unwrap();
    }
}

/// As at boot: what was mounted is gone, and what is on disk is there.
fn reboot(host: &Host, targets: &[&Path]) {
    for mounted in targets.iter().copied().chain([&*host.tmpfs()]) {
        umount2(mounted, MntFlags::MNT_DETACH).unwrap();
    }
    mounts::tmpfs(&host.tmpfs(), "size=16m");
}

#[test]
fn a_volumes_whole_life_leaves_the_kubelets_own_files_alone() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &[])]);
    let volume = Volume::set_up(&host, "1a2b");
    let mut wish = request(&volume.target(), "blue");
    // With `tokenRequests` in the CSIDriver object there is this one too.
    let tokens = (
        "csi.storage.k8s.io/serviceAccount.tokens",
        r#"{"aud":{"token":"t"}}"#,
    );
    wish.volume_context
        .insert(tokens.0.to_owned(), tokens.1.to_owned());
    driver.publish(wish).unwrap();
    expect_read_only(&volume.target());
    driver.unpublish(&volume.target()).unwrap();
    volume.tear_down();
    driver.stop().unwrap();
}

#[test]
fn a_refused_volume_leaves_nothing_that_the_kubelet_cannot_remove() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &["red"])]);
    let volume = Volume::set_up(&host, "1a2b");
    let error = driver
        .publish(request(&volume.target(), "blue"))
        .unwrap_err();
    assert_eq!(error.code(), Code::PermissionDenied);
    volume.tear_down();
    driver.stop().unwrap();
}

#[test]
fn after_a_node_restart_pods_get_their_store_anew_and_others_end() {
    let Some(host) = Host::new() else { return };
    let config = host.per_namespace();
    let driver = Driver::start(&config, Vec::new());
    let (stays, ends) = (
        Volume::set_up(&host, "stays"),
        Volume::set_up(&host, "ends"),
    );
    for volume in [&stays, &ends] {
        driver.publish(request(&volume.target(), "blue")).unwrap();
    }
    driver.kill();
    reboot(&host, &[&stays.target(), &ends.target()]);
    // The directories are there, on the disk, and so are dead sockets.
    assert!(stays.target().is_dir() && ends.target().is_dir());
    let driver = Driver::start(&config, Vec::new());
    driver.publish(request(&stays.target(), "blue")).unwrap();
    expect_read_only(&stays.target());
    assert_eq!(mounts(&stays.target()).len(), 1);
    driver.unpublish(&ends.target()).unwrap();
    ends.tear_down();
    driver.unpublish(&stays.target()).unwrap();
    stays.tear_down();
    driver.stop().unwrap();
}

#[test]
fn a_target_that_is_gone_is_unpublished() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &[])]);
    let volume = Volume::set_up(&host, "1a2b");
    driver.publish(request(&volume.target(), "blue")).unwrap();
    // As orphaned pods are cleaned up: by hand.
    umount2(&volume.target(), MntFlags::empty()).unwrap();
    driver.unpublish(&volume.target()).unwrap();
    driver.publish(request(&volume.target(), "blue")).unwrap();
    umount2(&volume.target(), MntFlags::empty()).unwrap();
    fs::remove_dir_all(&volume.dir).unwrap();
    driver.unpublish(&volume.target()).unwrap();
    driver.stop().unwrap();
}

#[test]
fn a_container_that_still_has_the_volume_does_not_hold_up_its_end() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &[])]);
    let volume = Volume::set_up(&host, "1a2b");
    driver.publish(request(&volume.target(), "blue")).unwrap();
    let target = volume.target();
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (leave, may_leave) = std::sync::mpsc::channel::<()>();
    let container = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mounts::propagation("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        let file = fs::File::open(target.join("store")).unwrap();
        entered.send(()).unwrap();
        may_leave.recv().unwrap();
        file.metadata().unwrap();
        fs::metadata(target.join("store")).is_ok()
    });
    has_entered.recv().unwrap();
    driver.unpublish(&volume.target()).unwrap();
    volume.tear_down();
    leave.send(()).unwrap();
    container.join().unwrap();
    driver.stop().unwrap();
}

#[test]
fn what_others_have_mounted_or_put_at_the_target_is_not_taken_for_the_store() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &[])]);
    let mounted = Volume::set_up(&host, "mounted");
    mounts::tmpfs(&mounted.target(), "size=1m");
    let error = driver
        .publish(request(&mounted.target(), "blue"))
        .unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists, "{error}");
    assert!(
        error.message().contains("file system of type tmpfs"),
        "{error}"
    );
    assert_eq!(mounts(&mounted.target()).len(), 1);
    let file = Volume::set_up(&host, "file");
    fs::write(file.target(), "x").unwrap();
    let error = driver.publish(request(&file.target(), "blue")).unwrap_err();
    assert_eq!(error.code(), Code::Internal, "{error}");
    assert_eq!(fs::read(file.target()).unwrap(), b"x");
    driver.stop().unwrap();
}

#[test]
fn publishing_and_unpublishing_at_once_end_with_the_last_call() {
    let Some(host) = Host::new() else { return };
    let driver = Driver::start(&host.config(), vec![host.store("a", &[])]);
    let volume = Volume::set_up(&host, "1a2b");
    for _ in 0..5 {
        std::thread::scope(|scope| {
            scope.spawn(|| driver.publish(request(&volume.target(), "blue")).unwrap());
            scope.spawn(|| driver.unpublish(&volume.target()).unwrap());
        });
        assert!(mounts(&volume.target()).len() <= 1);
    }
    driver.publish(request(&volume.target(), "blue")).unwrap();
    assert_eq!(mounts(&volume.target()).len(), 1);
    driver.unpublish(&volume.target()).unwrap();
    volume.tear_down();
    driver.stop().unwrap();
}
