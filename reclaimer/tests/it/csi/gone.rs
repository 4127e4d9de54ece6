//! Namespaces that go, and that are made again: whose store is whose, and when one is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tetris_node::csi::wire::NodePublishVolumeRequest;
use tetris_store_layout::{Access, CreateOptions, Mapping, Store, StoreId};
use tonic::Code;

use crate::csi::calls::mounts;
use crate::csi::fixture::{Driver, Host, PATIENCE, request};
use tetris_test_support::api::{Api, uid_of};

const OTHER_POD: &str = "3c4d";

/// A request for the pod that a namespace has under the same name, later.
fn later_pod(api: &Api, target: &Path, namespace: &str) -> NodePublishVolumeRequest {
    api.set_pod(namespace, "server-0", OTHER_POD);
    let mut wish = request(target, namespace);
    let uid = "csi.storage.k8s.io/pod.uid".to_owned();
    wish.volume_context.insert(uid, OTHER_POD.to_owned());
    wish
}

fn id(target: &Path) -> StoreId {
    Store::open(target).unwrap().id()
}

/// The directory of the namespace that was made so often.
fn directory(host: &Host, namespace: &str, times: u64) -> PathBuf {
    host.tmpfs()
        .join(format!("{namespace}.{}", uid_of(namespace, times)))
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has the driver look for what is to be removed, and waits until it has: it removes the store of a
/// namespace made for that.
fn swept(host: &Host, driver: &Driver, api: &Api) {
    let namespace = "swept";
    let times = 1 + fs::read_dir(host.tmpfs().join("../swept")).map_or(0, Iterator::count) as u64;
    fs::create_dir_all(host.tmpfs().join(format!("../swept/{times}"))).unwrap();
    api.make(namespace);
    let target = host.target(&format!("swept-{times}"));
    driver.publish(request(&target, namespace)).unwrap();
    driver.unpublish(&target).unwrap();
    api.remove(namespace);
    // It is the last by its name.
    eventually("the store of a namespace that is gone", || {
        !directory(host, namespace, times).exists()
    });
}

/// An object of the store at `root`, as a pod maps it.
fn map(root: &Path) -> Mapping {
    let store = Store::open(root).unwrap();
    store.publish(b"weights", Access::ReadOnly).unwrap().mapping
}

#[test]
fn a_namespace_made_again_gets_a_store_of_its_own_and_the_old_one_goes_with_its_last_volume() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    let (old, new) = (host.target("old"), host.target("new"));
    driver.publish(request(&old, "blue")).unwrap();
    let before = id(&old);
    api.make("blue");
    driver.publish(later_pod(&api, &new, "blue")).unwrap();
    assert_ne!(id(&new), before);
    assert_eq!(id(&directory(&host, "blue", 2)), id(&new));
    // A pod that still runs keeps what it has.
    swept(&host, &driver, &api);
    assert_eq!(id(&old), before);
    driver.unpublish(&old).unwrap();
    eventually("the old store goes", || {
        !directory(&host, "blue", 1).exists()
    });
    assert_eq!(id(&directory(&host, "blue", 2)), id(&new));
    driver.unpublish(&new).unwrap();
    driver.stop().unwrap();
}

#[test]
fn a_watch_that_lags_gives_nobody_the_store_of_a_predecessor() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    let (old, new) = (host.target("old"), host.target("new"));
    driver.publish(request(&old, "blue")).unwrap();
    let before = id(&old);
    driver.unpublish(&old).unwrap();
    api.set_silent(true);
    api.make("blue");
    driver.publish(later_pod(&api, &new, "blue")).unwrap();
    assert_ne!(id(&new), before);
    assert!(
        directory(&host, "blue", 1).exists(),
        "no watch said that it is gone"
    );
    driver.unpublish(&new).unwrap();
    driver.stop().unwrap();
}

#[test]
fn a_pod_that_is_gone_gets_no_store_of_the_namespace_that_came_after() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    let target = host.target("pod");
    api.set_pod("blue", "server-0", OTHER_POD);
    let error = driver.publish(request(&target, "blue")).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        error
            .message()
            .contains("pod `blue/server-0` is 3c4d by now, expected 1a2b"),
        "{error}"
    );
    api.remove("red");
    api.make("red");
    api.remove("red");
    let error = driver.publish(request(&target, "red")).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        error.message().contains("has no namespace `red`"),
        "{error}"
    );
    assert_eq!(
        (
            mounts(&target).len(),
            fs::read_dir(host.tmpfs()).unwrap().count()
        ),
        (0, 0)
    );
    driver.stop().unwrap();
}

#[test]
fn a_store_of_which_something_is_mapped_stays_until_nothing_is() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    let target = host.target("pod");
    driver.publish(request(&target, "blue")).unwrap();
    let mapping = map(&directory(&host, "blue", 1));
    // A volume can be taken away while a process still runs.
    driver.unpublish(&target).unwrap();
    api.remove("blue");
    swept(&host, &driver, &api);
    assert!(directory(&host, "blue", 1).exists());
    assert_eq!(&mapping[..], b"weights");
    drop(mapping);
    swept(&host, &driver, &api);
    eventually("nobody maps it any more", || {
        !directory(&host, "blue", 1).exists()
    });
    driver.stop().unwrap();
}

#[test]
fn the_limit_counts_namespaces_that_live() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let mut config = host.per_namespace();
    config.per_namespace.as_mut().unwrap().limit = 1;
    let driver = Driver::start_with(&config, Vec::new(), &api);
    let (first, second) = (host.target("first"), host.target("second"));
    driver.publish(request(&first, "blue")).unwrap();
    let error = driver.publish(request(&second, "red")).unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    // Its volume is mounted still, so it stays; but no one else must wait for that.
    api.remove("blue");
    eventually(
        "the store of a namespace that is gone is not counted",
        || driver.publish(request(&second, "red")).is_ok(),
    );
    assert!(directory(&host, "blue", 1).exists());
    for target in [&first, &second] {
        driver.unpublish(target).unwrap();
    }
    driver.stop().unwrap();
}

#[test]
fn without_the_api_server_new_pods_wait_others_keep_their_volumes_and_nothing_is_removed() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    let (there, new) = (host.target("there"), host.target("new"));
    driver.publish(request(&there, "blue")).unwrap();
    api.make("red");
    let gone = host.target("gone");
    driver.publish(request(&gone, "red")).unwrap();
    api.set_down(true);
    api.remove("red");
    driver.unpublish(&gone).unwrap();
    let error = driver.publish(request(&new, "blue")).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(
        error
            .message()
            .contains("the API server cannot be asked for namespace `blue`"),
        "{error}"
    );
    driver.publish(request(&there, "blue")).unwrap();
    assert_eq!(mounts(&there).len(), 1);
    assert!(
        directory(&host, "red", 1).exists(),
        "nobody said that it is gone for certain"
    );
    api.set_down(false);
    driver.publish(request(&new, "blue")).unwrap();
    assert_eq!(id(&new), id(&there));
    driver.unpublish(&new).unwrap();
    eventually("now somebody did", || !directory(&host, "red", 1).exists());
    driver.unpublish(&there).unwrap();
    driver.stop().unwrap();
}

#[test]
fn a_daemon_that_starts_removes_what_went_meanwhile_and_nothing_that_is_mounted() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let config = host.per_namespace();
    let driver = Driver::start_with(&config, Vec::new(), &api);
    let (old, free) = (host.target("old"), host.target("free"));
    driver.publish(request(&old, "blue")).unwrap();
    driver.publish(request(&free, "red")).unwrap();
    driver.unpublish(&free).unwrap();
    let before = id(&old);
    driver.kill();
    api.make("blue");
    api.remove("red");
    let driver = Driver::start_with(&config, Vec::new(), &api);
    eventually("nobody has it", || !directory(&host, "red", 1).exists());
    // The kubelet asks for all volumes again after it was restarted, also for those of pods that
    // are about to end.
    driver.publish(request(&old, "blue")).unwrap();
    assert_eq!(id(&old), before);
    let new = host.target("new");
    driver.publish(later_pod(&api, &new, "blue")).unwrap();
    assert_ne!(id(&new), before);
    driver.unpublish(&old).unwrap();
    eventually("nobody has it", || !directory(&host, "blue", 1).exists());
    driver.unpublish(&new).unwrap();
    driver.stop().unwrap();
}

#[test]
fn a_store_of_an_earlier_version_is_given_to_nobody_and_goes_when_nobody_has_it() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let team = host.store("team", &["team"]);
    let foreign = host.tmpfs().join("not-a-store");
    fs::create_dir(&foreign).unwrap();
    // As an earlier daemon made and mounted it.
    let old = host.store("blue", &["blue"]);
    let target = host.target("old");
    let earlier = Driver::start(&host.config(), vec![old.clone()]);
    earlier.publish(request(&target, "blue")).unwrap();
    earlier.stop().unwrap();
    let driver = Driver::start_with(&host.per_namespace(), vec![team.clone()], &api);
    let new = host.target("new");
    let before = id(&target);
    driver.publish(later_pod(&api, &new, "blue")).unwrap();
    assert_ne!(id(&new), before);
    // The earlier pod keeps its volume when it is asked for again.
    driver.publish(request(&target, "blue")).unwrap();
    assert_eq!(id(&target), before);
    driver.unpublish(&target).unwrap();
    eventually("nobody has it", || !old.path.exists());
    swept(&host, &driver, &api);
    assert!(team.path.exists() && foreign.exists());
    driver.unpublish(&new).unwrap();
    driver.stop().unwrap();
}

#[test]
fn what_is_left_of_a_removal_that_was_cut_short_goes_with_the_next() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let half = directory(&host, "blue", 1);
    Store::create(&half, &CreateOptions::default()).unwrap();
    fs::remove_file(half.join("store")).unwrap();
    let name = half.file_name().unwrap().to_str().unwrap();
    let begun = host.tmpfs().join(format!(".removed-{name}"));
    fs::create_dir_all(begun.join("objects-v1")).unwrap();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    api.make("blue");
    api.make("blue");
    eventually("it is gone", || !half.exists());
    assert_eq!(fs::read_dir(host.tmpfs()).unwrap().count(), 0);
    driver.stop().unwrap();
}
