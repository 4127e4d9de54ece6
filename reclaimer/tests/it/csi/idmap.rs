//! Idmapped mounts of pods, and leases on files of their stores.

use std::fs::{self, FileTimes};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, LoadOptions};
use tetris_node::csi::wire::NodePublishVolumeRequest;
use tetris_node::csi::{CsiConfig, IdmapMode, PodTrust};
use tetris_sandbox::idmap::IdMap;
use tetris_store_layout::{Access, FIRST_POD_DOMAIN, Reclaimed, SOCKET_USER, Store, TrustDomain};
use tetris_wire::BoundSocket;

use crate::csi::calls::{expect_read_only, mounts};
use crate::csi::fixture::{Driver, Host, request};
use crate::daemon::harness::model_file;
use tetris_test_support::api::{Api, uid_of};
use tetris_test_support::lease::{Lease, Rights};

/// The id that stands for users without one.
const NOBODY: u32 = 65_534;
const EACCES: i32 = nix::libc::EACCES;

/// Reports and returns true if this kernel has no idmapped tmpfs.
fn is_skipped(driver: &Driver) -> bool {
    let volumes = driver.volumes.borrow().clone().unwrap();
    let Some(reason) = volumes.plain_because else {
        return false;
    };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    true
}

fn counts(driver: &Driver) -> (u64, u64) {
    let volumes = driver.volumes.borrow().clone().unwrap();
    (volumes.idmapped, volumes.plain)
}

fn is_idmapped(target: &Path) -> bool {
    let mounts = mounts(target);
    assert_eq!(mounts.len(), 1);
    mounts[0].contains(",idmapped")
}

/// As a container runtime maps the ids of a pod's volumes, where the pod has its own users.
fn map_again(target: &Path) -> std::io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, target, flags)?;
    IdMap::of_one(0)?.apply(&tree)
}

#[test]
fn root_of_a_container_owns_no_file_of_its_store_and_takes_no_lease() {
    let Some(host) = Host::new() else { return };
    let store = host.store("a", &[]);
    let driver = Driver::start(&host.config(), vec![store.clone()]);
    let target = host.target("pod");
    driver.publish(request(&target, "blue")).unwrap();
    if is_skipped(&driver) {
        return;
    }
    assert!(is_idmapped(&target));
    expect_read_only(&target);
    let attempt = |dir: &Path, name: &str, kind: &str| {
        let lease = Lease::attempt(&dir.join(name), kind, Rights::Container);
        lease.map(drop)
    };
    for name in ["store", "locks", "objects-v1"] {
        assert_eq!(
            fs::metadata(target.join(name)).unwrap().uid(),
            NOBODY,
            "{name}"
        );
    }
    for kind in ["F_WRLCK", "F_RDLCK"] {
        // What is guarded against.
        assert_eq!(attempt(&store.path, "store", kind), Ok(()), "{kind}");
        assert_eq!(attempt(&target, "store", kind), Err(EACCES), "{kind}");
    }
    // Mode 0600, which CAP_DAC_OVERRIDE does not heed.
    assert_eq!(attempt(&store.path, "locks", "none"), Ok(()));
    assert_eq!(attempt(&target, "locks", "none"), Err(EACCES));

    // The rest is as before: mappings, which are seen, and the daemon's socket.
    let (ours, theirs) = (
        Store::open(&store.path).unwrap(),
        Store::open(&target).unwrap(),
    );
    assert!(theirs.hides_owner() && !theirs.is_writable() && !ours.hides_owner());
    let object = ours.publish(&[7; 5000], Access::ReadOnly).unwrap().object;
    let mapping = theirs.map(&object, Access::ReadOnly).unwrap().unwrap();
    assert_eq!(theirs.objects().unwrap().objects.len(), 1);
    assert_eq!(ours.reclaim(&object).unwrap(), Reclaimed::Referenced);
    drop(mapping);
    assert_eq!(
        ours.reclaim(&object).unwrap(),
        Reclaimed::Freed { bytes: 5000 }
    );
    let (_listener, _bound) = BoundSocket::bind(&ours.daemon_socket()).unwrap();
    let connect = || std::os::unix::net::UnixStream::connect(theirs.daemon_socket()).map(drop);
    let refused = connect().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(EACCES), "{refused}");
    let socket = ours.daemon_socket();
    let give = move || {
        let user = Some(SOCKET_USER);
        std::os::unix::fs::lchown(socket, user, user).unwrap();
    };
    expect_a_load_to_wait(&store.path, &target, give);
    let socket = fs::metadata(theirs.daemon_socket()).unwrap();
    assert_eq!(socket.uid(), SOCKET_USER);
    connect().unwrap();

    // No one named it, and its owner is no one: it is trusted all the same.
    let mut location = StoreLocation::named(&target);
    location.named = false;
    location.open().unwrap();
    driver.unpublish(&target).unwrap();
    driver.stop().unwrap();
}

/// A socket that no one has given yet, in a store made an hour ago, is that of a daemon that has just come: a load waits
/// until it is given, and connects then.
fn expect_a_load_to_wait(store: &Path, target: &Path, give: impl FnOnce() + Send) {
    let made = FileTimes::new().set_modified(SystemTime::now() - Duration::from_hours(1));
    let header = fs::File::open(store.join("store")).unwrap();
    header.set_times(made).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let model = model_file(dir.path(), 5 << 20, 1);
    let agent = Agent::open_store(target).unwrap();
    let options = LoadOptions::default().with_broker_timeout(Duration::from_secs(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            give();
        });
        // No one accepts the connection.
        let loaded = agent.load_with(&model, &options).unwrap();
        let why = loaded.report().private_reason.clone().unwrap();
        assert!(why.contains("cannot read from"), "{why}");
    });
}

#[test]
fn a_pod_with_users_of_its_own_gets_a_mount_that_its_runtime_can_map() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    api.set_own_users("blue", "server-0");
    let shared = host.store("shared", &["green"]);
    let driver = Driver::start_with(&host.per_namespace(), vec![shared], &api);
    let (own, others, fixed) = (
        host.target("own"),
        host.target("others"),
        host.target("fixed"),
    );
    driver.publish(request(&own, "blue")).unwrap();
    assert_eq!(counts(&driver), (0, 1));
    if is_skipped(&driver) {
        return;
    }
    driver.publish(request(&others, "red")).unwrap();
    driver.publish(request(&fixed, "green")).unwrap();
    assert!(!is_idmapped(&own) && is_idmapped(&others) && is_idmapped(&fixed));
    assert_eq!(counts(&driver), (2, 1));
    map_again(&own).unwrap();
    let refused = map_again(&others).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(nix::libc::EPERM), "{refused}");
    driver.unpublish(&fixed).unwrap();

    // A configured store is given even while no one can say whose users the pod has: then by a plain mount.
    api.set_down(true);
    driver.publish(request(&fixed, "green")).unwrap();
    assert!(!is_idmapped(&fixed));
    assert_eq!(counts(&driver), (1, 2));
    driver.kill();
    let driver = Driver::start_with(&host.per_namespace(), Vec::new(), &api);
    assert_eq!(counts(&driver), (1, 2), "they are counted at the start");
    for target in [own, others, fixed] {
        driver.unpublish(&target).unwrap();
    }
    assert_eq!(counts(&driver), (0, 0));
    driver.stop().unwrap();
}

/// The group that a mount of the store shows.
fn shown(target: &Path) -> u32 {
    fs::metadata(target.join("store")).unwrap().gid()
}

fn request_of(target: &Path, namespace: &str, account: &str) -> NodePublishVolumeRequest {
    let mut request = request(target, namespace);
    let key = "csi.storage.k8s.io/serviceAccount.name";
    request
        .volume_context
        .insert(key.to_owned(), account.to_owned());
    request
}

#[test]
fn mounts_show_the_trust_domain_of_the_pods_service_account() {
    let Some(host) = Host::new() else { return };
    let api = Api::new();
    let shared = host.store("shared", &["green", "red"]);
    let start = |trust_domain| {
        let config = CsiConfig {
            trust_domain,
            ..host.per_namespace()
        };
        Driver::start_with(&config, vec![shared.clone()], &api)
    };
    let driver = start(PodTrust::ServiceAccount);
    let target = |name: &str| host.target(name);
    let give = |driver: &Driver, pod: &str, namespace: &str, account: &str| {
        let target = target(pod);
        driver
            .publish(request_of(&target, namespace, account))
            .unwrap();
        shown(&target)
    };
    let web = give(&driver, "web", "blue", "web");
    if is_skipped(&driver) {
        return;
    }
    assert_eq!(web, FIRST_POD_DOMAIN);
    assert_eq!(give(&driver, "web-again", "blue", "web"), web);
    let batch = give(&driver, "batch", "blue", "batch");
    assert_eq!(batch, FIRST_POD_DOMAIN + 1);
    // Accounts of one name in a store that namespaces share.
    let (green, red) = (
        give(&driver, "green", "green", "web"),
        give(&driver, "red", "red", "web"),
    );
    assert_ne!(green, red);
    // A name that is none is not taken.
    assert_eq!(give(&driver, "odd", "blue", "web/../x"), NOBODY);
    // No pod reads who has which number.
    let domains = target("web").join("trust-domains");
    let refused = fs::read_dir(domains).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(EACCES), "{refused}");
    expect_read_only(&target("web"));
    let store = Store::open(host.tmpfs().join(format!("blue.{}", uid_of("blue", 1)))).unwrap();
    let header = |pod: &str| fs::File::open(target(pod).join("store")).unwrap();
    let domain = |pod| store.domain_of_mount(header(pod)).unwrap();
    assert_eq!(domain("web"), Some(TrustDomain::Pods(web)));
    assert_eq!(domain("batch"), Some(TrustDomain::Pods(batch)));
    // Of another store, which has its own numbers.
    assert_eq!(domain("green"), None);
    driver.stop().unwrap();

    // Numbers outlive the driver; a namespace's is another one.
    let driver = start(PodTrust::ServiceAccount);
    assert_eq!(give(&driver, "third", "blue", "batch"), batch);
    driver.stop().unwrap();
    let driver = start(PodTrust::Namespace);
    let all = give(&driver, "fourth", "blue", "web");
    assert_eq!(all, FIRST_POD_DOMAIN + 2);
    assert_eq!(give(&driver, "fifth", "blue", "batch"), all);
    driver.stop().unwrap();
    let driver = start(PodTrust::Off);
    assert_eq!(give(&driver, "sixth", "blue", "web"), NOBODY);
    driver.stop().unwrap();
}

#[test]
fn without_idmapping_pods_get_plain_mounts_and_the_reason_is_told() {
    let Some(host) = Host::new() else { return };
    let config = CsiConfig {
        idmap: IdmapMode::Off,
        ..host.config()
    };
    let store = host.store("a", &[]);
    let driver = Driver::start(&config, vec![store.clone()]);
    let target = host.target("pod");
    driver.publish(request(&target, "blue")).unwrap();
    assert!(!is_idmapped(&target));
    expect_read_only(&target);
    assert_eq!(fs::metadata(target.join("store")).unwrap().uid(), 0);
    let volumes = driver.volumes.borrow().clone().unwrap();
    let because = volumes.plain_because.as_deref();
    assert_eq!(
        (counts(&driver), because),
        ((0, 1), Some("`csi.idmap` is `off`"))
    );
    driver.unpublish(&target).unwrap();
    driver.stop().unwrap();
}

#[test]
fn volumes_come_and_go_while_a_process_holds_a_lease_on_a_store_s_header() {
    let Some(host) = Host::new() else { return };
    let fixed = host.store("fixed", &["green"]);
    let start = || Driver::start(&host.per_namespace(), vec![fixed.clone()]);
    let driver = start();
    let first = host.target("first");
    driver.publish(request(&first, "blue")).unwrap();
    let directory = host.tmpfs().join(format!("blue.{}", uid_of("blue", 1)));
    // A store that a daemon looks after is open, and takes no lease.
    let refused = Lease::attempt(&directory.join("store"), "F_WRLCK", Rights::Node);
    assert_eq!(refused.map(drop), Err(nix::libc::EAGAIN));
    driver.stop().unwrap();
    let leases = [directory, fixed.path.clone()].map(|store| Lease::write(&store.join("store")));
    let driver = start();
    let (second, third) = (host.target("second"), host.target("third"));
    driver.publish(request(&second, "blue")).unwrap();
    driver.publish(request(&third, "green")).unwrap();
    for target in [&first, &second, &third] {
        driver.unpublish(target).unwrap();
    }
    assert!(leases.iter().all(Lease::is_held));
    driver.stop().unwrap();
}
