//! Declared models are kept warm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tetris_agent::daemon::DaemonClient;
use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::keep_warm::{Declaration, Freshness, Pod, WarmSet};
use tetris_node::report::{ObjectState, Trigger};
use tetris_node::room::RoomNeed;
use tetris_node::socket::{Limits, Socket};
use tetris_store_layout::{
    Access, DerivedKey, Dtype, FileIdentity, FileSystem, IdentityBy, IdentityKey, Layout,
    LayoutKey, LayoutPlace, LayoutTensor, ManifestKind, TensorId,
};

use crate::node::fixture::{Fixture, HOUR_MS, count, expire_after_a_minute, in_two_minutes, pass};

fn declared(namespace: &str, what: &[&str]) -> WarmSet {
    let pod = Pod {
        namespace: namespace.to_owned(),
        name: "server".to_owned(),
        uid: "1".to_owned(),
    };
    let what: BTreeSet<Declaration> = what.iter().map(|text| text.parse().unwrap()).collect();
    WarmSet {
        freshness: Freshness::Current,
        pods: BTreeMap::from([(pod, what)]),
    }
}

#[test]
fn a_declared_model_stays_through_expiry_and_pressure() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let mut reclaimer = Reclaimer::new(
        fixture.config(&["a"], expire_after_a_minute),
        false,
        now_ms(),
    );
    drop(fixture.load("a", "bert", 1));
    drop(fixture.load("a", "other", 2));
    let (bert, _) = {
        let agent = tetris_agent::Agent::open_store(fixture.path("a")).unwrap();
        let model = agent.load(fixture.path("bert.safetensors")).unwrap();
        let manifests = store.manifests().unwrap();
        let holders = tetris_store_layout::Holders::read().unwrap();
        let object = store
            .objects()
            .unwrap()
            .objects
            .into_iter()
            .find(|o| holders.of(o) > 0);
        let object = object.unwrap().object;
        drop(model);
        let with = manifests.iter().find(|record| {
            let manifest = store.manifest(record.id).unwrap().unwrap();
            manifest.objects.iter().any(|entry| entry.object == object)
        });
        (with.unwrap().id, object)
    };
    reclaimer.declare(declared("team", &[&format!("manifest:{bert}")]));
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert_eq!(count(&passed.status.stores[0], ObjectState::Warm), 1);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    let everything = RoomNeed {
        store: "a".to_owned(),
        bytes: store.usage().unwrap().capacity,
        inodes: 0,
        ..RoomNeed::default()
    };
    reclaimer.pass(Trigger::Request, &[everything], in_two_minutes());
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    reclaimer.declare(declared("team", &[]));
    pass(&mut reclaimer, in_two_minutes());
    assert!(store.objects().unwrap().objects.is_empty());
}

#[test]
fn a_model_can_be_declared_by_digest_and_by_a_name_that_the_configuration_explains() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    drop(fixture.load("a", "bert", 1));
    let manifest = store.manifests().unwrap()[0].id;
    let key = IdentityKey {
        kind: ManifestKind::Safetensors,
        by: IdentityBy::Sha256 {
            digest: [0xab; 32],
            size: 5,
        },
    };
    store.bind(&key, manifest).unwrap();
    let config = fixture.config(&["a"], |file| {
        expire_after_a_minute(file);
        let meaning = vec![format!("sha256:{}", "ab".repeat(32))];
        file.models.insert("bert-base".to_owned(), meaning);
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    for what in [
        format!("sha256:{}", "AB".repeat(32)),
        "bert-base".to_owned(),
    ] {
        reclaimer.declare(declared("team", &[&what]));
        pass(&mut reclaimer, in_two_minutes());
        assert_eq!(store.objects().unwrap().objects.len(), 1, "{what}");
    }
    reclaimer.declare(declared("team", &["bert-large"]));
    pass(&mut reclaimer, in_two_minutes());
    assert!(store.objects().unwrap().objects.is_empty());
}

#[test]
fn a_declaration_counts_only_for_the_stores_of_its_namespace() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.store("a"), fixture.store("b"));
    let config = fixture.config(&["a", "b"], |file| {
        expire_after_a_minute(file);
        file.stores[0].namespaces = vec!["blue".to_owned()];
        file.stores[1].namespaces = vec!["green".to_owned()];
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    drop(fixture.load("a", "bert", 1));
    drop(fixture.load("b", "bert", 1));
    let manifest = a.manifests().unwrap()[0].id;
    reclaimer.declare(declared("green", &[&format!("manifest:{manifest}")]));
    pass(&mut reclaimer, in_two_minutes());
    assert!(a.objects().unwrap().objects.is_empty());
    assert_eq!(b.objects().unwrap().objects.len(), 1);
}

#[test]
fn what_is_derived_from_a_declared_model_is_as_warm_as_the_model() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    drop(fixture.load("a", "bert", 1));
    let manifest_id = store.manifests().unwrap()[0].id;
    let tensor = store.manifest(manifest_id).unwrap().unwrap().tensors[0].id;
    let derive = |source, bytes: &[u8]| {
        let key = DerivedKey::new(source, "cast", 1).unwrap();
        let make = || Ok::<_, std::convert::Infallible>(bytes.to_vec());
        let wait = Duration::from_secs(1);
        drop(
            store
                .get_or_create(&key, Access::ReadOnly, wait, make)
                .unwrap(),
        );
    };
    derive(tensor, b"cast of a warm tensor");
    derive(TensorId::of(b"other"), b"cast of another");
    let mut reclaimer = Reclaimer::new(
        fixture.config(&["a"], expire_after_a_minute),
        false,
        now_ms(),
    );
    reclaimer.declare(declared("team", &[&format!("manifest:{manifest_id}")]));
    pass(&mut reclaimer, in_two_minutes());
    assert_eq!(store.objects().unwrap().objects.len(), 2);
    assert_eq!(store.derived_records().unwrap().len(), 1);
}

#[test]
fn a_layout_of_a_declared_model_is_warm_with_all_its_objects() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    drop(fixture.load("a", "bert", 1));
    let manifest_id = store.manifests().unwrap()[0].id;
    let tensor = store.manifest(manifest_id).unwrap().unwrap().tensors[0].id;
    let layout = |source, bytes: &[u8]| {
        let packed = store.publish(bytes, Access::ReadOnly).unwrap();
        let weight = LayoutTensor {
            name: "weight".to_owned(),
            dtype: Dtype::U8,
            shape: vec![packed.object.len],
            strides: vec![1],
            place: Some(LayoutPlace {
                object: 0,
                offset: 0,
            }),
            alias: None,
        };
        let layout = Layout {
            sources: [source].into(),
            objects: vec![packed.object],
            tensors: vec![weight],
            ..Layout::default()
        };
        let table = store.publish(&layout.encode(), Access::ReadOnly).unwrap();
        let key = LayoutKey::new("pack", 1).with_source("weight", source);
        let key = key.derived_key().unwrap();
        store.record_derived(&key, table.object).unwrap();
    };
    layout(tensor, b"packed from a warm tensor");
    layout(TensorId::of(b"other"), b"packed from another");
    assert_eq!(store.objects().unwrap().objects.len(), 5);
    let mut reclaimer = Reclaimer::new(
        fixture.config(&["a"], expire_after_a_minute),
        false,
        now_ms(),
    );
    reclaimer.declare(declared("team", &[&format!("manifest:{manifest_id}")]));
    pass(&mut reclaimer, in_two_minutes());
    assert_eq!(store.objects().unwrap().objects.len(), 3);
    assert_eq!(store.derived_records().unwrap().len(), 1);
}

#[test]
fn while_nothing_is_known_of_the_cluster_what_was_used_lately_stays_and_the_rest_goes_by_its_locks()
{
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], |file| {
        expire_after_a_minute(file);
        file.kubernetes.enabled = true;
        file.node = Some("node-1".to_owned());
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    assert_eq!(reclaimer.declared().freshness, Freshness::Unknown);
    drop(fixture.load("a", "bert", 1));
    pass(&mut reclaimer, in_two_minutes());
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    pass(&mut reclaimer, now_ms() + HOUR_MS);
    assert!(store.objects().unwrap().objects.is_empty());
}

/// The identities that a pod's own download leaves do not pile up for ever.
#[test]
fn identities_of_one_manifest_are_bounded() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let model = fixture.load("a", "bert", 1);
    let manifest = store.manifests().unwrap()[0].id;
    for ino in 0..400 {
        let file = FileIdentity {
            dev: 1,
            ino,
            size: 1,
            mtime: (0, 0),
            ctime: (0, 0),
        };
        let system = FileSystem {
            magic: 1,
            id: 1,
            instance: 0,
        };
        let by = IdentityBy::Stat { file, system };
        let kind = ManifestKind::Safetensors;
        store.bind(&IdentityKey { kind, by }, manifest).unwrap();
    }
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    let passed = pass(&mut reclaimer, now_ms());
    assert_eq!(passed.report.stores[0].records_removed, 401 - 256);
    assert_eq!(store.identities().unwrap().len(), 256);
    drop(model);
}

#[test]
fn clients_are_told_which_models_are_declared() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    drop(fixture.load("a", "bert", 1));
    let bert = store.manifests().unwrap()[0].id;
    drop(fixture.load("a", "other", 2));
    let ids: BTreeSet<_> = store
        .manifests()
        .unwrap()
        .iter()
        .map(|manifest| manifest.id)
        .collect();
    assert_eq!(ids.len(), 2);
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    reclaimer.declare(declared("team", &[&format!("manifest:{bert}")]));
    let passed = pass(&mut reclaimer, now_ms());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (latest, status) = tokio::sync::watch::channel(None);
    let socket = {
        let _inside = runtime.enter();
        Socket::bind(&fixture.path("a"), "a").unwrap()
    };
    let socket = socket.with_status(status);
    let (asks, _nobody_asks) = tokio::sync::mpsc::channel(1);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _dropped = stopped.await;
    };
    let served = runtime.spawn(socket.serve(asks, Limits::default(), |_| (), stopped));
    let daemon = DaemonClient::of_store(&store, Duration::from_mins(1));
    let ask = || daemon.declared_warm(&ids);
    let early = ask().unwrap_err().to_string();
    assert!(early.contains("has not looked"), "{early}");
    latest.send_replace(Some(Arc::new(passed.status)));
    assert_eq!(ask().unwrap(), BTreeSet::from([bert]));
    drop(stop);
    runtime.block_on(served).unwrap();
    assert_eq!(
        ask().unwrap(),
        BTreeSet::new(),
        "no daemon, no declarations"
    );
}
