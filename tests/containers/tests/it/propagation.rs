//! Mounts of the node's container arrive on the host, and read-only.

use std::fs::{self, File};
use std::path::Path;

use nix::errno::Errno;
use tetris_container_tests::model::Spec;

use crate::docker::{Container, privileged};
use crate::host::{Host, mounted_at};
use crate::image;
use crate::node::{Node, Settings, directory, objects};
use crate::pod::Pod;

const SETTINGS: Settings = Settings {
    mib: 32,
    inodes: 10_000,
    expires: true,
};
const SPEC: Spec = Spec::mib(3, 2);

/// As the host sees it: why a volume could be written to, if it could.
fn writable(volume: &Path) -> Option<String> {
    let Some(entry) = mounted_at(volume) else {
        return Some("nothing is mounted there".to_owned());
    };
    if !entry.is_read_only() {
        return Some(format!("its options are {:?}", entry.options));
    }
    // Of a file whose owner has no id in the mount, permission is asked before the mount's options.
    let refused = |result: std::io::Result<File>| {
        let refusals = [Errno::EROFS as i32, Errno::EACCES as i32];
        result.is_err_and(|error| {
            error
                .raw_os_error()
                .is_some_and(|code| refusals.contains(&code))
        })
    };
    if !refused(File::create_new(volume.join("planted"))) {
        return Some("a file can be made".to_owned());
    }
    let objects = fs::read_dir(volume.join("objects-v1")).unwrap();
    let mut objects = objects.map(|entry| entry.unwrap().path());
    let written = objects.find(|path| !refused(File::options().write(true).open(path)));
    written.map(|path| format!("{} can be written to", path.display()))
}

#[test]
fn a_published_volume_is_read_only_on_the_host_too() {
    let Some(host) = Host::new() else { return };
    let model = host.download("model", SPEC);
    let node = Node::start(&host, SETTINGS);
    let volume = node.publish("a", "team");
    let pod = Pod::new(&host, 1001, 64).with_store(&volume);
    let server = pod.with_models(&model).load(SPEC);
    assert_eq!(server.loaded().bytes_private, 0);
    assert!(!objects(&node.store("team")).is_empty());
    assert_eq!(writable(&volume), None);
    let entry = mounted_at(&volume).unwrap();
    for option in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(entry.has(option), "{entry:?}");
    }

    // What the daemon publishes later is seen through it, and a restart changes nothing.
    node.kill();
    node.start_again();
    assert_eq!(
        node.publish("a", "team"),
        volume,
        "as the kubelet repeats it"
    );
    assert_eq!(writable(&volume), None);
    assert_eq!(mounted_at(&volume).unwrap().id, entry.id);
    server.end();
    node.unpublish("a");
    assert!(mounted_at(&volume).is_none() && !volume.exists());
}

/// The check above finds what it is for.
#[test]
fn a_bind_that_is_made_read_only_afterwards_is_writable_on_the_host() {
    let Some(host) = Host::new() else { return };
    let node = Node::start(&host, SETTINGS);
    let _store = node.publish("right", "team");
    let volume = host.kubelet().join("wrong");
    fs::create_dir(&volume).unwrap();
    let mut options = privileged();
    options.push(format!(
        "--volume={}:/host:rshared",
        host.kubelet().display()
    ));
    options.push(format!(
        "--volume={}:/tetris:rshared",
        host.tetris().display()
    ));
    let store = format!("/tetris/stores/{}", directory("team"));
    let command = [image::POD, "publish-wrongly", &store, "/host/wrong"];
    let container = Container::start("wrong", &host.image.name, &options, &command);
    assert_eq!(container.ended(), 0, "{}", container.stderr());
    let error = writable(&volume).expect("it is not read-only");
    assert!(error.starts_with("its options are"), "{error}");
}
