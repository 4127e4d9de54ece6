//! Volumes of the Python package.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;
use tetris_node::csi::wire::NodePublishVolumeRequest;
use tetris_node::csi::{CsiConfig, PythonConfig};

use crate::csi::calls::mounts;
use crate::csi::fixture::{Driver, Host, request};

/// A daemon's image with a package, and the place of its mounts.
struct Image {
    host: Host,
    config: CsiConfig,
}

impl Image {
    fn new() -> Option<Self> {
        let host = Host::new()?;
        let config = CsiConfig {
            python: PythonConfig {
                source: host.kubelet().with_file_name("image"),
                path: host.tmpfs().join("python"),
                ..PythonConfig::default()
            },
            ..host.config()
        };
        Some(Self { host, config })
    }

    /// The daemon's image gets these files in place of others.
    fn contains(&self, files: &[(&str, &str)]) {
        let source = &self.config.python.source;
        let _none = fs::remove_dir_all(source);
        for (name, text) in files {
            let path = source.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn start(&self) -> Driver {
        Driver::start(&self.config, Vec::new())
    }

    /// Packages mounted for pods to come.
    fn mounted(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.config.python.path) else {
            return Vec::new();
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn python(target: &Path) -> NodePublishVolumeRequest {
    let mut request = request(target, "blue");
    let content = ("content".to_owned(), "python".to_owned());
    request.volume_context.extend([content]);
    request
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_pod_gets_the_package_read_only_executable_and_shared_with_others() {
    let Some(image) = Image::new() else { return };
    let program = "#!/bin/sh\nexit 7\n";
    image.contains(&[
        ("sitecustomize.py", "1"),
        ("package/tetris/program", program),
    ]);
    let driver = image.start();
    let (one, other) = (image.host.target("one"), image.host.target("other"));
    for target in [&one, &other] {
        driver.publish(python(target)).unwrap();
        driver.publish(python(target)).unwrap();
        assert_eq!(mounts(target).len(), 1);
    }
    assert_eq!(read(one.join("sitecustomize.py")), "1");
    let metadata = |target: &Path| fs::metadata(target.join("package/tetris/program")).unwrap();
    let (first, second) = (metadata(&one), metadata(&other));
    assert_eq!((first.dev(), first.ino()), (second.dev(), second.ino()));
    // Every user of a pod may read.
    assert_eq!(first.mode() & 0o777, 0o644);
    assert!(
        mounts(&one)[0].contains(" ro,nosuid,nodev,"),
        "{:?}",
        mounts(&one)
    );
    assert!(!mounts(&one)[0].contains("noexec"), "{:?}", mounts(&one));
    let refused = fs::write(one.join("new"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));
    // The file system itself is read-only, so no mount of it can be written to.
    let [there] = &*image.mounted() else {
        panic!("{:?}", image.mounted())
    };
    let refused = fs::write(there.join("sitecustomize.py"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));
    driver.unpublish(&one).unwrap();
    assert!(!one.exists());
    assert_eq!(read(other.join("sitecustomize.py")), "1");
}

#[test]
fn an_extension_can_be_mapped_for_execution() {
    let Some(image) = Image::new() else { return };
    image.contains(&[]);
    fs::create_dir_all(&image.config.python.source).unwrap();
    fs::copy("/bin/true", image.config.python.source.join("true")).unwrap();
    let driver = image.start();
    let target = image.host.target("pod");
    driver.publish(python(&target)).unwrap();
    let loader = interpreter();
    let Some(loader) = loader else {
        // Without the dynamic linker there is nothing that maps it.
        eprintln!("SKIPPED: an_extension_can_be_mapped_for_execution: no dynamic linker");
        return;
    };
    // The linker maps the file for execution, as Python maps an extension.
    let status = Command::new(loader).arg(target.join("true")).status();
    assert!(status.unwrap().success());
}

fn interpreter() -> Option<PathBuf> {
    ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
}

#[test]
fn a_newer_daemon_takes_nothing_from_pods_that_run() {
    let Some(image) = Image::new() else { return };
    image.contains(&[("VERSION", "1")]);
    let (before, after) = (image.host.target("before"), image.host.target("after"));
    let driver = image.start();
    driver.publish(python(&before)).unwrap();
    let first = image.mounted();
    driver.stop().unwrap();
    // The same image again, after a crash: the same mount.
    let driver = image.start();
    driver.publish(python(&after)).unwrap();
    assert_eq!(image.mounted(), first);
    driver.unpublish(&after).unwrap();
    driver.kill();
    image.contains(&[("VERSION", "2")]);
    let driver = image.start();
    assert_eq!(image.mounted(), Vec::<PathBuf>::new(), "earlier packages");
    driver.publish(python(&after)).unwrap();
    assert_eq!(image.mounted().len(), 1);
    assert_ne!(image.mounted(), first);
    assert_eq!(read(before.join("VERSION")), "1");
    assert_eq!(read(after.join("VERSION")), "2");
    // The kubelet may ask again for a pod that runs: it keeps what it has.
    driver.publish(python(&before)).unwrap();
    assert_eq!(mounts(&before).len(), 1);
    assert_eq!(read(before.join("VERSION")), "1");
    driver.unpublish(&before).unwrap();
    assert!(!before.exists());
}

#[test]
fn a_daemon_without_a_package_gives_an_empty_volume() {
    let Some(image) = Image::new() else { return };
    let driver = image.start();
    let target = image.host.target("pod");
    driver.publish(python(&target)).unwrap();
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    assert_eq!(mounts(&target).len(), 1);
}

#[test]
fn a_directory_in_the_place_of_the_mount_is_not_given() {
    let Some(image) = Image::new() else { return };
    image.contains(&[("VERSION", "1")]);
    let driver = image.start();
    let (one, other) = (image.host.target("one"), image.host.target("other"));
    driver.publish(python(&one)).unwrap();
    let [there] = &*image.mounted() else {
        panic!("{:?}", image.mounted())
    };
    nix::mount::umount2(there, nix::mount::MntFlags::MNT_DETACH).unwrap();
    fs::write(there.join("VERSION"), "forged").unwrap();
    driver.publish(python(&other)).unwrap();
    assert_eq!(read(other.join("VERSION")), "1");
}
