//! Derived tensors of clients that can only read the store, and whose word they are.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tetris_agent::daemon::DaemonClient;
use tetris_agent::{Agent, LoadOptions, Origin};
use tetris_store_layout::{
    Access, DerivedKey, FIRST_POD_DOMAIN, ObjectRef, Store, TensorId, TrustDomain,
};
use tetris_wire::daemon::{DerivedClaim, ErrorCode, IngestReason, IngestRefusal, Message};

use crate::ingest::ground::tensor;
use crate::ingest::harness::{Raw, Site, eventually};

const LEN: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_mins(1);

/// Derives, and returns the result, its origin, and true if it was made here.
fn derive(agent: &Agent, seed: u8) -> (Vec<u8>, Origin, bool) {
    let made = Cell::new(false);
    let make = || {
        made.set(true);
        Ok::<_, ()>(tensor(LEN, seed))
    };
    let (source, options) = (TensorId::of(b"source"), LoadOptions::default());
    let derived = agent.derive(source, "cast", 1, &options, make);
    let derived = derived.unwrap().unwrap();
    assert_eq!(derived.private_reason(), None);
    (derived.to_vec(), derived.origin(), made.get())
}

fn key(domain: TrustDomain) -> DerivedKey {
    let key = DerivedKey::new(TensorId::of(b"source"), "cast", 1).unwrap();
    key.in_domain(domain)
}

fn records(site: &Site) -> usize {
    let store = Store::open(site.store()).unwrap();
    store.derived_records().unwrap().len()
}

#[test]
fn one_process_of_a_user_derives_and_the_others_find_the_record() {
    let Some(site) = Site::plain() else { return };
    let right = tensor(LEN, 1);
    assert_eq!(derive(&site.agent(), 1), (right.clone(), Origin::New, true));
    assert_eq!(
        derive(&site.agent(), 1),
        (right.clone(), Origin::Shared, false)
    );
    assert_eq!((records(&site), site.objects()), (1, 1));
    let store = Store::open(site.store()).unwrap();
    let record = store.derived(&key(TrustDomain::User(0)), Access::ReadOnly);
    assert_eq!(&*record.unwrap().unwrap().mapping, right);
    // The word of the store's owner counts for all.
    let owners = store.publish(&tensor(LEN, 2), Access::ReadOnly).unwrap();
    store
        .record_derived(&key(TrustDomain::Owner), owners.object)
        .unwrap();
    assert_eq!(derive(&site.agent(), 1).0, tensor(LEN, 2));
    eventually("nothing is kept", || site.broker.active_files() == 0);
}

const ROOT: &str = "TETRIS_TEST_DERIVED";

#[test]
#[ignore = "run as another user by the test below"]
fn as_another_user() {
    let root = std::env::var_os(ROOT).unwrap();
    let agent = Agent::open_store(Path::new(&root)).unwrap();
    let (bytes, origin, made) = derive(&agent, 1);
    assert_eq!((bytes, origin, made), (tensor(LEN, 1), Origin::New, true));
    let (_, origin, made) = derive(&agent, 1);
    assert_eq!((origin, made), (Origin::Shared, false));
}

#[test]
fn a_lie_of_one_user_harms_no_other() {
    let Some(site) = Site::plain() else { return };
    // User 0 claims that the result is something else.
    assert_eq!(derive(&site.agent(), 66).0, tensor(LEN, 66));
    assert_eq!(derive(&site.agent(), 1).0, tensor(LEN, 66));
    let child = Command::new("/proc/self/exe")
        .args(["--ignored", "--exact", "ingest::derived::as_another_user"])
        .env(ROOT, site.view())
        .current_dir("/")
        .uid(4711)
        .gid(4711)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    assert_eq!(records(&site), 2);
}

#[test]
fn a_lie_of_a_pod_harms_no_pod_of_another_domain() {
    let Some(site) = Site::of_pods() else { return };
    let Some(liar) = site.pod_view("liar", FIRST_POD_DOMAIN) else {
        return;
    };
    let others = site.pod_view("others", FIRST_POD_DOMAIN + 1).unwrap();
    let pod = |view: &Path| Agent::open_store(view).unwrap();
    assert_eq!(
        derive(&pod(&liar), 66),
        (tensor(LEN, 66), Origin::New, true)
    );
    let friend = site.pod_view("friend", FIRST_POD_DOMAIN).unwrap();
    assert!(!derive(&pod(&friend), 66).2, "the same domain");
    let right = tensor(LEN, 1);
    assert_eq!(derive(&pod(&others), 1), (right.clone(), Origin::New, true));
    assert_eq!(
        derive(&pod(&others), 1),
        (right.clone(), Origin::Shared, false)
    );
    // A mount without a domain: each derives, and shares the memory.
    for _ in 0..2 {
        let plain = derive(&site.agent(), 1);
        assert_eq!(plain, (right.clone(), Origin::Shared, true));
    }
    assert_eq!((records(&site), site.objects()), (2, 2));

    // No one gets a record into another domain: the mount decides, not the message.
    let socket = liar.join("daemon");
    let header = |view: &Path| std::fs::File::open(view.join("store")).unwrap();
    let theirs = key(TrustDomain::Pods(FIRST_POD_DOMAIN + 1));
    let object = ObjectRef::of(&tensor(LEN, 66));
    let daemon = DaemonClient::new(socket, TIMEOUT);
    let recorded = daemon.record_derived(header(&liar), &theirs, object);
    let why = recorded.unwrap_err().to_string();
    assert!(
        why.contains("expected domain pods 1, found pods 0"),
        "{why}"
    );
    assert_eq!(derive(&pod(&others), 1).0, right);
}

#[test]
fn the_domain_is_that_of_the_store_s_header_and_of_no_other_file() {
    let Some(site) = Site::of_pods() else { return };
    let Some(view) = site.pod_view("pod", FIRST_POD_DOMAIN + 7) else {
        return;
    };
    let daemon = DaemonClient::new(site.view().join("daemon"), TIMEOUT);
    let ask = |path: &Path| {
        let header = std::fs::File::open(path).unwrap();
        daemon.trust_domain(header).unwrap()
    };
    let domain = Some(TrustDomain::Pods(FIRST_POD_DOMAIN + 7));
    assert_eq!(ask(&view.join("store")), domain);
    assert_eq!(ask(&view.join("objects-v1")), None);
    assert_eq!(ask(&site.view().join("store")), None);
    let forged = site.file("store-of-mine", b"x");
    std::os::unix::fs::lchown(&forged, None, Some(FIRST_POD_DOMAIN)).unwrap();
    assert_eq!(ask(&forged), None);
    // A pod's user id is no one's domain.
    assert_eq!(ask(Path::new("/dev/null")), None);
}

#[test]
fn a_claim_without_a_domain_or_an_object_is_refused() {
    let Some(site) = Site::plain() else { return };
    let claim = |object| {
        Message::RecordDerived(DerivedClaim {
            object,
            source: TensorId::of(b"source"),
            version: 1,
            transform: "cast".to_owned(),
        })
        .encode()
    };
    let missing = ObjectRef::of(b"nowhere");
    let mut raw = Raw::greeted(&site.view());
    let refused = |raw: &mut Raw, reason| match raw.answer() {
        Message::IngestRefused(IngestRefusal { reason: found, .. }) => assert_eq!(found, reason),
        other => panic!("no refusal: {other:?}"),
    };
    raw.send(&claim(missing));
    refused(&mut raw, IngestReason::NO_DOMAIN);
    let ask = Message::AskDomain.encode();
    raw.send(&ask);
    let Message::Error { code, .. } = raw.answer() else {
        panic!("no error");
    };
    assert_eq!(code, ErrorCode::MALFORMED);
    let header = std::fs::File::open(site.view().join("store")).unwrap();
    raw.send(&ask[..5]);
    raw.send_with(&ask[5..], &[header.as_fd()]);
    assert_eq!(raw.answer(), Message::Domain(Some(TrustDomain::User(0))));
    raw.send(&claim(missing));
    refused(&mut raw, IngestReason::NO_OBJECT);
    let store = Store::open(site.store()).unwrap();
    let mapped = store.publish(b"here", Access::ReadOnly).unwrap();
    raw.send(&claim(mapped.object));
    assert_eq!(raw.answer(), Message::Recorded);
    assert_eq!(records(&site), 1);
}
