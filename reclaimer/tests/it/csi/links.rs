//! The stores' owner, who is another user than the driver's and can put links in the place of
//! stores.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;

use tetris_store_layout::{CreateOptions, Store};
use tonic::Code;

use crate::csi::calls::mounts;
use crate::csi::fixture::{Driver, Host, request};
use tetris_test_support::api::uid_of;

const OWNER: u32 = 9460;

/// Owners of a directory and of all in it.
fn owners(dir: &Path) -> Vec<(u32, u32)> {
    let of = |path: &Path| {
        let stat = fs::symlink_metadata(path).unwrap();
        (stat.uid(), stat.gid())
    };
    let below = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let below = below.flat_map(|entry| {
        if entry.file_type().unwrap().is_dir() {
            owners(&entry.path())
        } else {
            vec![of(&entry.path())]
        }
    });
    std::iter::once(of(dir)).chain(below).collect()
}

#[test]
fn a_store_is_made_with_the_rights_of_its_owner_and_no_link_in_its_place_is_followed() {
    let Some(host) = Host::new() else { return };
    lchown(host.tmpfs(), Some(OWNER), Some(OWNER)).unwrap();
    let driver = Driver::start(&host.per_namespace(), Vec::new());
    let (first, second) = (host.target("first"), host.target("second"));
    driver.publish(request(&first, "blue")).unwrap();
    let directory = host.tmpfs().join(format!("blue.{}", uid_of("blue", 1)));
    let ids = owners(&directory);
    assert!(ids.len() > 6, "{ids:?}");
    assert!(ids.iter().all(|owner| *owner == (OWNER, OWNER)));
    driver.unpublish(&first).unwrap();

    // A whole store elsewhere, which its link would hand to the pod.
    let elsewhere = host.kubelet().with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    tetris_test_support::mounts::tmpfs(&elsewhere, "size=1m");
    let secret = elsewhere.join("secret");
    drop(Store::create(&secret, &CreateOptions::default()).unwrap());
    let empty = elsewhere.join("empty");
    fs::create_dir(&empty).unwrap();
    lchown(&empty, Some(OWNER), Some(OWNER)).unwrap();
    let refused = |target: &Path, namespace: &str| {
        let error = driver.publish(request(target, namespace)).unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert_eq!(mounts(target).len(), 0);
        error.message().to_owned()
    };
    fs::rename(&directory, directory.with_file_name("Moved")).unwrap();
    symlink(&secret, &directory).unwrap();
    let message = refused(&second, "blue");
    assert!(message.contains(directory.to_str().unwrap()), "{message}");
    // Of one that is to be made.
    let red = host.tmpfs().join(format!("red.{}", uid_of("red", 1)));
    symlink(&empty, &red).unwrap();
    refused(&second, "red");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);

    // A header that is a link is an error of that volume alone.
    fs::remove_file(&directory).unwrap();
    fs::rename(directory.with_file_name("Moved"), &directory).unwrap();
    driver.publish(request(&second, "blue")).unwrap();
    driver.unpublish(&second).unwrap();
    fs::remove_file(directory.join("store")).unwrap();
    symlink(secret.join("store"), directory.join("store")).unwrap();
    let message = refused(&second, "blue");
    assert!(
        message.contains(directory.join("store").to_str().unwrap()),
        "{message}"
    );
    fs::remove_file(directory.join("store")).unwrap();
    fs::write(directory.join("store"), [7; 64]).unwrap();
    refused(&second, "blue");
    driver.publish(request(&second, "green")).unwrap();
    driver.stop().unwrap();
}
