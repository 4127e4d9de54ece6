//! Functions of a cluster, by objects as an API server has them.

mod outage;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::{Value, json};
use tetris_scaler::operator::records::{FunctionRecord, ProfileRecord};
use tetris_scaler::state::Key;

use crate::cluster::functions::{Common, Functions};
use crate::cluster::pod::InstanceRecord;
use crate::config::ClusterDefaults;
use crate::routes::Routes;

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

pub(super) fn function_object(slo_ms: u64) -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": "embed", "namespace": "search", "uid": "u"},
        "spec": {
            "profile": "minilm", "slo": {"latencyMillis": slo_ms}, "load": {"static": {"requestsPerSecond": 1.0}},
            "template": {"spec": {"containers": [{"name": "main", "image": "server"}]}},
        },
    })
}

fn function(slo_ms: u64) -> FunctionRecord {
    FunctionRecord::read(object(function_object(slo_ms)))
}

pub(super) fn profile_object() -> Value {
    let measured = json!({
        "cpuMillis": 2_000, "ownBytes": 1_000, "batch": 4, "concurrency": 2,
        "latencyMicros": {"p50": 40_000, "p90": 45_000, "p95": 50_000, "p99": 60_000},
    });
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {"name": "minilm", "namespace": "search", "uid": "p"},
        "spec": {"model": "minilm", "unlistedBytes": 10, "configurations": [measured]},
    })
}

fn profile() -> ProfileRecord {
    ProfileRecord::read(&object(profile_object()))
}

pub(super) fn pod_object(name: &str, configuration: &str, status: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "search", "uid": name,
            "labels": {"tetris.dev/function": "embed", "tetris.dev/configuration": configuration},
        },
        "spec": {"containers": [{"name": "main", "ports": [
            {"name": "metrics", "containerPort": 9}, {"name": "http", "containerPort": 8080},
        ]}]},
        "status": status,
    })
}

fn pod(
    name: &str,
    configuration: &str,
    status: &Value,
    more: &Value,
) -> (Key, Arc<InstanceRecord>) {
    let mut pod = pod_object(name, configuration, status);
    for (field, value) in more.as_object().unwrap() {
        pod["metadata"][field] = value.clone();
    }
    let pod = serde_json::from_value(pod).unwrap();
    let key = Key::new("search".to_owned(), name.to_owned());
    (key, Arc::new(InstanceRecord::read(&pod).unwrap()))
}

pub(super) fn ready(ip: &str) -> Value {
    json!({"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]})
}

struct World {
    functions: Functions,
    function: FunctionRecord,
    profiles: BTreeMap<Key, Arc<ProfileRecord>>,
    pods: BTreeMap<Key, Arc<InstanceRecord>>,
    gateways: u32,
}

impl World {
    fn new() -> Self {
        let key = Key::new("search".to_owned(), "minilm".to_owned());
        Self {
            functions: Functions::default(),
            function: function(200),
            profiles: BTreeMap::from([(key, Arc::new(profile()))]),
            pods: BTreeMap::new(),
            gateways: 1,
        }
    }

    fn routes(&mut self) -> Arc<Routes> {
        let key = Key::new("search".to_owned(), "embed".to_owned());
        let functions = BTreeMap::from([(key, Arc::new(self.function.clone()))]);
        let common = Common {
            defaults: ClusterDefaults::default(),
            gateways: self.gateways,
        };
        self.functions
            .update(&functions, &self.profiles, &self.pods, common)
    }

    /// Name, address and room of each instance.
    fn rooms(&mut self) -> Vec<(String, String, u64)> {
        let routes = self.routes();
        let endpoints = routes.functions().next().unwrap().endpoints().into_iter();
        let shown = endpoints.map(|endpoint| {
            (
                endpoint.name,
                endpoint.address.to_string(),
                endpoint.load.room,
            )
        });
        shown.collect()
    }
}

fn row(name: &str, address: &str, room: u64) -> (String, String, u64) {
    (name.to_owned(), address.to_owned(), room)
}

#[tokio::test]
async fn instances_have_the_capacity_of_their_configuration() {
    let mut world = World::new();
    assert!(world.rooms().is_empty());
    world.pods.extend([
        pod("a", "c2000-b4-p2", &ready("10.0.0.1"), &json!({})),
        pod("b", "c1-b1-p1", &ready("10.0.0.2"), &json!({})),
    ]);
    assert_eq!(
        world.rooms(),
        [row("a", "10.0.0.1:8080", 8), row("b", "10.0.0.2:8080", 1)]
    );
    world.gateways = 2;
    assert_eq!(
        world.rooms()[0].2,
        4,
        "each of two gateways uses half of it"
    );
    world.profiles.clear();
    assert_eq!(
        world.rooms()[0].2,
        1,
        "without its profile, one request at a time"
    );
}

#[tokio::test]
async fn pods_that_end_or_are_not_ready_drain() {
    let mut world = World::new();
    world
        .pods
        .extend([pod("a", "c2000-b4-p2", &ready("10.0.0.1"), &json!({}))]);
    assert_eq!(world.rooms()[0].2, 8);
    let ending = json!({"deletionTimestamp": "2026-11-25T00:00:00Z"});
    for (status, more) in [
        (ready("10.0.0.1"), ending),
        (
            json!({"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "False"}]}),
            json!({}),
        ),
    ] {
        world.pods.extend([pod("a", "c2000-b4-p2", &status, &more)]);
        assert_eq!(world.rooms()[0].2, 0);
        world
            .pods
            .extend([pod("a", "c2000-b4-p2", &ready("10.0.0.1"), &json!({}))]);
        assert_eq!(world.rooms()[0].2, 8);
    }
    world.pods.clear();
    assert!(world.rooms().is_empty());
}

#[tokio::test]
async fn an_invalid_function_keeps_what_it_had() {
    let mut world = World::new();
    world
        .pods
        .extend([pod("a", "c2000-b4-p2", &ready("10.0.0.1"), &json!({}))]);
    let slo = |world: &mut World| world.routes().functions().next().unwrap().slo().as_millis();
    assert_eq!(slo(&mut world), 200);
    world.function = function(0);
    assert_eq!(slo(&mut world), 200);
    world.function = function(300);
    assert_eq!((slo(&mut world), world.rooms().len()), (300, 1));
}

#[test]
fn a_pod_without_an_address_or_at_its_end_is_no_instance() {
    for status in [json!({}), json!({"podIP": "10.0.0.1", "phase": "Failed"})] {
        let pod = json!({
            "metadata": {"name": "a", "uid": "a", "labels": {"tetris.dev/function": "f", "tetris.dev/configuration": "c"}},
            "status": status,
        });
        assert_eq!(
            InstanceRecord::read(&serde_json::from_value(pod).unwrap()),
            None
        );
    }
}
