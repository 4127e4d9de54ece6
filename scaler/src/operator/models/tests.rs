//! Writes due for models.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tetris_scaler_core::{Inventory, InventoryLimits};

use super::decide::{Action, Facts, decide};
use super::ordered::OrderedModels;
use super::records::{KeeperPod, ModelRecord, PodState, ServerRecord, check};
use super::server::{Server, server};
use crate::nodes::KeptModel;
use crate::operator::observed::Observed;
use crate::operator::placing::Step;
use crate::operator::prepare::{Unprepared, prepare};
use crate::operator::records::{FunctionRecord, Instance, NodeRecord, PodRecord};
use crate::operator::shared::unmeasured;
use crate::placement::Gate;
use crate::resources::{ModelProfile, ModelSpec, ModelStatus, PodSource, stored_object};
use crate::state::Key;

/// A cluster with models, as the API server has it.
struct World {
    template: Result<Value, String>,
    models: BTreeMap<String, Value>,
    servers: BTreeMap<Key, Arc<ServerRecord>>,
    pods: BTreeMap<Key, Arc<KeeperPod>>,
    nodes: BTreeMap<Key, Arc<NodeRecord>>,
    of_functions: BTreeSet<&'static str>,
    resident: BTreeMap<String, u64>,
    kept: BTreeMap<String, Arc<[KeptModel]>>,
    statuses: BTreeMap<String, ModelStatus>,
    now: Timestamp,
}

impl World {
    fn new(nodes: usize) -> Self {
        let nodes = (0..nodes).map(|number| {
            let name = format!("node-{number}");
            let kind = if number % 2 == 0 { "gpu" } else { "cpu" };
            let node = NodeRecord {
                name: name.clone(),
                labels: [("kind".to_owned(), kind.to_owned())].into(),
                accepts_new: true,
                ..NodeRecord::default()
            };
            (Key::new("", name), Arc::new(node))
        });
        Self {
            template: Ok(
                json!({"spec": {"containers": [{"name": "keep", "image": "tetris-agent"}]}}),
            ),
            models: BTreeMap::new(),
            servers: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: nodes.collect(),
            of_functions: BTreeSet::new(),
            resident: BTreeMap::new(),
            kept: BTreeMap::new(),
            statuses: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn record(&self, name: &str) -> ModelRecord {
        let object = json!({
            "apiVersion": "tetris.dev/v1alpha1",
            "kind": "Model",
            "metadata": {"name": name, "namespace": "blue", "uid": format!("uid-{name}"), "generation": 3},
            "spec": self.models[name],
            "status": self.statuses.get(name),
        });
        ModelRecord::read(serde_json::from_value::<DynamicObject>(object).unwrap())
    }

    fn due(&self, name: &str) -> Vec<Action> {
        let record = self.record(name);
        decide(&Facts {
            record: &record,
            template: self.template.as_ref().map_err(String::as_str),
            servers: &self.servers,
            pods: &self.pods,
            nodes: &self.nodes,
            of_functions: self.of_functions.clone(),
            resident: self.resident.clone(),
            kept: &self.kept,
            description: None,
            now: self.now,
        })
    }

    /// Carries out what is due, as the API server and the controller of DaemonSets do. Returns the reasons of events.
    fn step(&mut self, name: &str) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        for action in self.due(name) {
            match action {
                Action::Apply { is_new, server } => {
                    assert_eq!(is_new, !self.servers.contains_key(&key(&server.name)));
                    let nodes = self.nodes_of(&server);
                    let mut object = server.object;
                    object["metadata"]["uid"] = format!("uid-{}", server.name).into();
                    object["status"] = json!({
                        "desiredNumberScheduled": nodes.len(), "observedGeneration": 1,
                        "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
                    });
                    let read = serde_json::from_value::<DaemonSet>(object).unwrap();
                    let record = ServerRecord::read(&read).unwrap();
                    self.pods.retain(|_, pod| {
                        pod.content != server.content || nodes.contains(&pod.node)
                    });
                    for node in nodes {
                        let key = key(&format!("{}-{node}", server.name));
                        let pod = KeeperPod {
                            key: key.clone(),
                            model: name.to_owned(),
                            content: server.content.clone(),
                            node,
                            address: None,
                            state: PodState::Pulling,
                            failures: 0,
                            message: None,
                        };
                        self.pods.entry(key).or_insert(Arc::new(pod));
                    }
                    self.servers.insert(record.key.clone(), Arc::new(record));
                }
                Action::Delete { key, .. } => {
                    let gone = self.servers.remove(&key).unwrap();
                    self.pods.retain(|_, pod| pod.content != gone.content);
                }
                Action::Event { reason, .. } => reasons.push(reason),
                Action::Status(status) => drop(self.statuses.insert(name.to_owned(), *status)),
            }
        }
        reasons
    }

    /// Steps until nothing is due.
    fn settle(&mut self, name: &str) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        for _ in 0..10 {
            reasons.extend(self.step(name));
            if self.due(name).is_empty() {
                return reasons;
            }
        }
        panic!("it never settles: {:?}", self.due(name));
    }

    /// Nodes that a DaemonSet has pods on, as its controller finds them.
    fn nodes_of(&self, server: &Server) -> BTreeSet<String> {
        let pods = &server.object["spec"]["template"]["spec"];
        let terms = pods.pointer(
            "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
        );
        let named: Option<BTreeSet<&str>> = terms.map(|terms| {
            let terms = terms.as_array().unwrap().iter();
            terms
                .map(|term| term["matchFields"][0]["values"][0].as_str().unwrap())
                .collect()
        });
        let selector = pods["nodeSelector"].as_object();
        let matches = |node: &&Arc<NodeRecord>| {
            let is_named = named
                .as_ref()
                .is_none_or(|named| named.contains(&*node.name));
            let mut labels = selector.into_iter().flatten();
            is_named
                && labels.all(|(name, value)| {
                    node.labels.get(name).map(String::as_str) == value.as_str()
                })
        };
        let nodes = self.nodes.values().filter(matches);
        nodes.map(|node| node.name.clone()).collect()
    }

    fn set(&mut self, state: PodState, message: Option<&str>, pods: impl Fn(&KeeperPod) -> bool) {
        for pod in self.pods.values_mut().filter(|pod| pods(pod)) {
            let pod = Arc::make_mut(pod);
            (pod.state, pod.message) = (state, message.map(str::to_owned));
            pod.failures += u32::from(state == PodState::Failed);
        }
    }

    fn on(&self, content: &str) -> BTreeSet<&str> {
        let pods = self.pods.values().filter(|pod| pod.content == content);
        pods.map(|pod| pod.node.as_str()).collect()
    }

    fn contents(&self) -> Vec<String> {
        let servers = self.servers.values();
        servers.map(|server| server.content.clone()).collect()
    }

    fn reason(&self, name: &str) -> (&str, &str) {
        let ready = &self.statuses[name].conditions[0];
        (&ready.status, &ready.reason)
    }
}

fn key(name: &str) -> Key {
    Key::new("blue", name)
}

fn spec(fields: &Value) -> Value {
    let mut spec = json!({"source": "hf://org/model"});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    spec
}

#[test]
fn a_model_comes_to_all_nodes_with_its_labels_and_says_how_far_it_is() {
    let mut world = World::new(4);
    world.models.insert(
        "llama".to_owned(),
        spec(&json!({"nodes": {"matchLabels": {"kind": "gpu"}}})),
    );
    assert_eq!(world.settle("llama"), ["Ordered", "Pulling"]);
    let content = world.contents().pop().unwrap();
    assert_eq!(world.on(&content), ["node-0", "node-2"].into());
    assert_eq!(world.reason("llama"), ("False", "Pulling"));
    let status = &world.statuses["llama"];
    assert_eq!((status.wanted, status.present), (2, 0));
    assert_eq!(status.observed_generation, Some(3));
    // As far as the daemons say.
    let kept = |store: &str| KeptModel {
        store: store.to_owned(),
        name: "llama".to_owned(),
        done_bytes: 30,
        total_bytes: 90,
        bytes_per_second: 15,
    };
    world
        .kept
        .insert("node-0".to_owned(), [kept("green"), kept("blue")].into());
    world
        .kept
        .insert("node-2".to_owned(), [kept("green")].into());
    assert!(world.settle("llama").is_empty());
    let nodes = &world.statuses["llama"].nodes;
    let rates: Vec<_> = nodes
        .iter()
        .map(|node| (node.done_bytes, node.total_bytes, node.bytes_per_second))
        .collect();
    assert_eq!(rates, [(Some(30), Some(90), Some(15)), (None, None, None)]);
    world.set(PodState::Present, None, |pod| pod.node == "node-0");
    assert!(world.settle("llama").is_empty());
    let message = &world.statuses["llama"].conditions[0].message;
    assert_eq!(message, "on 1 of 2 nodes");
    world.set(PodState::Failed, Some("401: give a token"), |pod| {
        pod.node == "node-2"
    });
    assert_eq!(world.settle("llama"), ["Failed"]);
    let status = &world.statuses["llama"];
    let expected = "on 1 of 2 nodes; it failed on node-2: 401: give a token";
    assert_eq!(status.conditions[0].message, expected);
    // What is wrong comes first.
    let states: Vec<_> = status
        .nodes
        .iter()
        .map(|node| (&*node.name, &*node.state))
        .collect();
    assert_eq!(states, [("node-2", "Failed"), ("node-0", "Present")]);
    assert_eq!(status.nodes[0].failures, 1);
    world.set(PodState::Present, None, |_| true);
    assert_eq!(world.settle("llama"), ["Present"]);
    assert_eq!(world.reason("llama"), ("True", "Present"));
}

#[test]
fn a_number_of_nodes_stays_the_same_ones_until_they_are_lost() {
    let mut world = World::new(6);
    world
        .models
        .insert("llama".to_owned(), spec(&json!({"nodes": {"count": 2}})));
    world.settle("llama");
    let content = world.contents().pop().unwrap();
    let first: BTreeSet<String> = world.on(&content).into_iter().map(str::to_owned).collect();
    assert_eq!(first.len(), 2);
    world.set(PodState::Present, None, |_| true);
    world.settle("llama");
    // More nodes bring no move.
    for number in 6..40 {
        let name = format!("node-{number}");
        let node = NodeRecord {
            name: name.clone(),
            accepts_new: true,
            ..NodeRecord::default()
        };
        world.nodes.insert(Key::new("", name), Arc::new(node));
    }
    assert!(world.settle("llama").is_empty());
    let lost = first.iter().next().unwrap();
    Arc::make_mut(world.nodes.get_mut(&Key::new("", lost.clone())).unwrap()).is_lost = true;
    world.settle("llama");
    assert_eq!(
        world.contents(),
        std::slice::from_ref(&content),
        "it is the same DaemonSet"
    );
    let now = world.on(&content);
    assert_eq!(now.len(), 2);
    assert!(!now.contains(lost.as_str()) && now.iter().any(|node| first.contains(*node)));
    // Other models are elsewhere.
    let placed = (0..20).map(|number| {
        let name = format!("model-{number}");
        world
            .models
            .insert(name.clone(), spec(&json!({"nodes": {"count": 1}})));
        world.settle(&name);
        let mut pods = world.pods.values().filter(|pod| pod.model == name);
        pods.next().unwrap().node.clone()
    });
    let placed: BTreeSet<String> = placed.collect();
    assert!(placed.len() > 8, "{placed:?}");
}

#[test]
fn a_model_follows_the_plan_of_its_functions() {
    let mut world = World::new(4);
    let nodes = json!({"nodes": {"withFunctions": true}});
    world.models.insert("llama".to_owned(), spec(&nodes));
    world.settle("llama");
    let content = world.contents().pop().unwrap();
    assert!(world.on(&content).is_empty());
    assert_eq!(world.reason("llama"), ("False", "NoNodes"));
    world.of_functions = ["node-1", "node-3", "gone"].into();
    world.settle("llama");
    assert_eq!(world.on(&content), ["node-1", "node-3"].into());
    world.of_functions = ["node-3"].into();
    world.settle("llama");
    assert_eq!(world.on(&content), ["node-3"].into());
    let nodes = json!({"nodes": {"withFunctions": true, "count": 1}});
    world.models.insert("llama".to_owned(), spec(&nodes));
    world.settle("llama");
    assert_eq!(world.on(&content).len(), 2);
}

#[test]
fn a_new_source_takes_the_place_of_the_old_one_when_it_is_everywhere() {
    let mut world = World::new(2);
    world.models.insert("llama".to_owned(), spec(&json!({})));
    world.settle("llama");
    world.set(PodState::Present, None, |_| true);
    world.settle("llama");
    let old = world.contents().pop().unwrap();
    world
        .models
        .insert("llama".to_owned(), spec(&json!({"revision": "v2"})));
    world.settle("llama");
    assert_eq!(world.servers.len(), 2);
    world.set(PodState::Failed, Some("404"), |pod| pod.content != old);
    world.settle("llama");
    // The old one stays where the new one cannot come, and a third one takes the place of the second.
    assert_eq!(world.reason("llama"), ("False", "Failed"));
    world
        .models
        .insert("llama".to_owned(), spec(&json!({"revision": "v3"})));
    world.settle("llama");
    assert_eq!(world.servers.len(), 2);
    assert!(world.contents().contains(&old));
    world.set(PodState::Present, None, |pod| pod.node == "node-0");
    world.settle("llama");
    assert_eq!(world.servers.len(), 2, "one node still lacks the new one");
    world.set(PodState::Present, None, |_| true);
    world.settle("llama");
    assert_eq!(world.servers.len(), 1);
    assert!(!world.contents().contains(&old));
    assert_eq!(world.reason("llama"), ("True", "Present"));
}

#[test]
fn a_model_goes_at_its_time_and_is_back_when_that_is_later() {
    let mut world = World::new(1);
    let until = |text: &str| spec(&json!({"keepUntil": text}));
    world
        .models
        .insert("llama".to_owned(), until("1970-01-01T00:01:00Z"));
    world.settle("llama");
    assert_eq!(world.servers.len(), 1);
    world.now += SignedDuration::from_secs(60);
    assert_eq!(world.settle("llama"), ["Expired"]);
    assert!(world.servers.is_empty());
    assert_eq!(world.reason("llama"), ("False", "Expired"));
    world
        .models
        .insert("llama".to_owned(), until("1970-01-01T00:02:00Z"));
    world.settle("llama");
    assert_eq!(world.servers.len(), 1);
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let mut world = World::new(1);
    world.models.insert("llama".to_owned(), spec(&json!({})));
    world.settle("llama");
    let before = world.servers.clone();
    for (wrong, reason) in [
        (spec(&json!({"memory": "much"})), "InvalidField"),
        (json!({"source": 7}), "InvalidField"),
        (spec(&json!({"size": 7})), "InvalidField"),
    ] {
        world.models.insert("llama".to_owned(), wrong);
        world.settle("llama");
        assert_eq!(world.reason("llama"), ("False", reason));
        assert_eq!(world.servers, before);
    }
    world.models.insert("llama".to_owned(), spec(&json!({})));
    world.template = Err("there is none".to_owned());
    assert_eq!(world.settle("llama"), ["NoTemplate"]);
    assert_eq!(world.servers, before);
    // A DaemonSet of a user with the same labels is left alone.
    let mut foreign = before.values().next().unwrap().as_ref().clone();
    foreign.owner = None;
    world.servers = [(key("theirs"), Arc::new(foreign))].into();
    world.template = World::new(0).template;
    world.models.insert(
        "llama".to_owned(),
        spec(&json!({"keepUntil": "1970-01-01T00:00:00Z"})),
    );
    world.settle("llama");
    assert_eq!(world.servers.len(), 1);
}

#[test]
fn pods_are_those_of_the_template_with_what_the_model_says() {
    let mut world = World::new(1);
    world.models.insert(
        "llama".to_owned(),
        spec(&json!({
            "revision": "v1", "include": ["*.safetensors"], "exclude": ["*.bin"], "secret": "hub",
            "environment": {"HF_ENDPOINT": "http://hub"}, "serviceAccountName": "web", "store": "shared",
            "priority": 7, "priorityClassName": "high", "connections": 4, "limitRate": "500M", "memory": "2Gi",
        })),
    );
    let record = world.record("llama");
    let spec = record.spec.clone().unwrap();
    let made = server(&record, &spec, world.template.as_ref().unwrap(), None);
    let pods = &made.object["spec"]["template"]["spec"];
    let container = &pods["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "keep",
            "--name",
            "llama",
            "--ready-port",
            "8080",
            "--include=*.safetensors",
            "--exclude=*.bin",
            "--priority=7",
            "--connections=4",
            "--limit-rate=500M",
            "--",
            "hf://org/model@v1"
        ])
    );
    assert_eq!(container["image"], "tetris-agent");
    assert_eq!(
        container["envFrom"],
        json!([{"secretRef": {"name": "hub"}}])
    );
    assert_eq!(
        container["env"][0],
        json!({"name": "HF_ENDPOINT", "value": "http://hub"})
    );
    assert_eq!(container["resources"]["limits"]["memory"], "2Gi");
    assert_eq!(pods["serviceAccountName"], "web");
    assert_eq!(pods["priorityClassName"], "high");
    assert_eq!(
        pods["volumes"][0]["csi"]["volumeAttributes"]["store"],
        "shared"
    );
    assert_eq!(pods["volumes"][1]["secret"]["secretName"], "hub");
    assert_eq!(made.object["spec"]["updateStrategy"]["type"], "OnDelete");
    let owner = &made.object["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("Model"), &json!("uid-llama"))
    );
    // Nodes are no content.
    let narrowed: BTreeSet<String> = ["node-0".to_owned()].into();
    let template = world.template.as_ref().unwrap();
    let narrowed = server(&record, &spec, template, Some(&narrowed));
    assert_eq!(
        (&narrowed.name, &narrowed.content),
        (&made.name, &made.content)
    );
    assert_ne!(narrowed.written, made.written);
}

fn pod(status: &Value) -> KeeperPod {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "blue", "labels": {"tetris.dev/model": "llama", "tetris.dev/model-content": "c"}},
        "spec": {"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-7"]}]}]}}}},
        "status": status,
    });
    KeeperPod::read(&serde_json::from_value::<Pod>(pod).unwrap()).unwrap()
}

#[test]
fn pods_say_how_far_they_are_and_what_is_wrong() {
    let container = |state: Value, last: Value| {
        json!({"containerStatuses": [{"name": "keep", "image": "", "imageID": "", "ready": false,
            "restartCount": 2, "state": state, "lastState": last}]})
    };
    let failed =
        json!({"terminated": {"exitCode": 1, "message": "a line\nerror: 401: give a token\n\n"}});
    let crashed = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
    let starting = json!({"waiting": {"reason": "ContainerCreating"}});
    let no_image = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
    let running = json!({"running": {}});
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    for (status, state, message) in [
        (
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            PodState::Present,
            None,
        ),
        (
            container(running.clone(), json!({})),
            PodState::Pulling,
            None,
        ),
        (
            container(running, failed.clone()),
            PodState::Pulling,
            Some("401: give a token"),
        ),
        (
            container(crashed.clone(), failed),
            PodState::Failed,
            Some("401: give a token"),
        ),
        (
            container(crashed, killed),
            PodState::Failed,
            Some("the pod ended with code 137 (OOMKilled)"),
        ),
        (
            container(no_image, json!({})),
            PodState::Failed,
            Some("not found"),
        ),
        (
            container(starting, json!({})),
            PodState::Pending,
            Some("the node starts the pod"),
        ),
        (
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "no memory"}]}),
            PodState::Pending,
            Some("no memory"),
        ),
        (
            json!({}),
            PodState::Pending,
            Some("the node has not started the pod"),
        ),
    ] {
        let pod = pod(&status);
        assert_eq!(
            (pod.state, pod.message.as_deref()),
            (state, message),
            "{status}"
        );
        assert_eq!(pod.node, "node-7");
    }
    let long = json!({"terminated": {"exitCode": 1, "message": "ä".repeat(4096)}});
    assert_eq!(pod(&container(long, json!({}))).message.unwrap().len(), 512);
}

#[test]
fn fields_that_no_schema_checks_are_checked() {
    let spec = |change: fn(&mut ModelSpec)| {
        let mut spec = ModelSpec::default();
        change(&mut spec);
        check(&spec).map_err(|problem| problem.to_string())
    };
    assert_eq!(spec(|spec| spec.memory = Some("2Gi".to_owned())), Ok(()));
    let wrong = spec(|spec| spec.memory = Some("much".to_owned())).unwrap_err();
    assert!(
        wrong.starts_with("`spec.memory`: found \"much\""),
        "{wrong}"
    );
    let named = |name: &str, value: &str| ModelSpec {
        environment: [(name.to_owned(), value.to_owned())].into(),
        ..ModelSpec::default()
    };
    check(&named("HF_ENDPOINT", "http://hub")).unwrap();
    check(&named("A=B", "")).unwrap_err();
    check(&named("A", &"x".repeat(4097))).unwrap_err();
}

/// A function `f` that serves the model `llama`.
fn function() -> Arc<FunctionRecord> {
    let function = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": "f", "namespace": "blue", "uid": "uid-f"},
        "spec": {
            "profile": "p", "slo": {"latencyMillis": 100}, "load": {"static": {"requestsPerSecond": 1}},
            "model": "llama", "template": {"spec": {"containers": [{"name": "server", "image": "server"}]}},
        },
    });
    let record = FunctionRecord::read(serde_json::from_value::<DynamicObject>(function).unwrap());
    assert_eq!(
        record.function.as_ref().unwrap().model.as_deref(),
        Some("llama")
    );
    Arc::new(record)
}

#[test]
fn a_model_goes_to_nodes_that_have_most_of_it() {
    let mut world = World::new(6);
    world.resident = [("node-2".to_owned(), 1), ("node-4".to_owned(), 2)].into();
    world
        .models
        .insert("llama".to_owned(), spec(&json!({"nodes": {"count": 1}})));
    world.settle("llama");
    let content = world.contents().pop().unwrap();
    assert_eq!(world.on(&content), ["node-4"].into());
    // It stays there, whatever comes to another.
    world.resident.insert("node-2".to_owned(), 3);
    world.settle("llama");
    assert_eq!(world.on(&content), ["node-4"].into());
    world
        .models
        .insert("llama".to_owned(), spec(&json!({"nodes": {"count": 2}})));
    world.settle("llama");
    assert_eq!(world.on(&content), ["node-2", "node-4"].into());
}

#[test]
fn tensors_of_a_model_are_those_in_the_profiles_of_its_functions() {
    let profile = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {"name": "p", "namespace": "blue"},
        "spec": {
            "model": "llama",
            "configurations": [{
                "cpuMillis": 1000, "batch": 1, "concurrency": 1, "ownBytes": 1 << 20,
                "latencyMicros": {"p50": 50_000, "p90": 50_000, "p95": 50_000, "p99": 50_000},
            }],
            "objects": [{"id": "aa".repeat(32), "bytes": 100}, {"id": "bb".repeat(32), "bytes": 30}],
        },
    });
    let profile: ModelProfile = serde_json::from_value(profile).unwrap();
    let function = function();
    let checked = function.function.as_ref().unwrap();
    let PodSource::Template(template) = &checked.pods else {
        panic!("the function has a template");
    };
    let prepared = prepare(checked, template, &profile.checked().unwrap());
    let mut inventory = Inventory::new(InventoryLimits::default());
    let object = |byte: &str| stored_object("blue", &byte.repeat(32).parse().unwrap());
    for (node, objects) in [
        ("node-0", vec![object("bb")]),
        ("node-1", vec![object("cc")]),
    ] {
        inventory.set_node(node, &objects).unwrap();
    }
    let ordered = OrderedModels::default();
    ordered.note_tensors(&Observed {
        functions: vec![unmeasured(&function, prepared.map(Arc::new))],
        inventory: Arc::new(inventory),
        ..Observed::default()
    });
    let tensors = ordered.tensors();
    let expected: BTreeMap<_, _> = [("node-0".to_owned(), 30)].into();
    assert_eq!(tensors.resident(&key("llama")), expected);
    assert!(tensors.resident(&key("other")).is_empty());
}

#[test]
fn gates_towards_planned_nodes_wait_for_their_model_to_be_given_to_the_node() {
    let instance = Instance {
        function: "f".to_owned(),
        ..Instance::default()
    };
    let pod = PodRecord {
        key: key("f-0"),
        instance: Some(instance),
        ..PodRecord::default()
    };
    let observed = Observed {
        functions: vec![unmeasured(
            &function(),
            Err(Unprepared::NoProfile("p".to_owned())),
        )],
        pods: Arc::new([(key("f-0"), Arc::new(pod))].into()),
        ..Observed::default()
    };
    let ordered = OrderedModels::default();
    let opens = |node: Option<&str>, reason: &'static str, waited_ms: u64| {
        let mut steps = vec![Step::Open {
            pod: key("f-0"),
            gate: Gate::default(),
            node: node.map(str::to_owned),
            gpu: None,
            reason,
            waited_ms,
        }];
        ordered.hold_back(&mut steps, &observed);
        !steps.is_empty()
    };
    let set = |nodes: Option<&[&str]>| {
        let nodes = nodes.map(|nodes| nodes.iter().map(|node| (*node).to_owned()).collect());
        ordered.set([(key("llama"), nodes)].into());
    };
    // No such model, and one for all nodes.
    assert!(opens(Some("node-1"), "planned", 0));
    set(None);
    assert!(opens(Some("node-1"), "planned", 0));
    set(Some(&["node-0"]));
    assert!(!opens(Some("node-1"), "planned", 0));
    assert!(opens(Some("node-0"), "planned", 0));
    // Pods without a plan, and pods that have waited long, do not depend on it.
    assert!(opens(None, "unplanned", 0) && opens(Some("node-1"), "chosen", 0));
    assert!(opens(Some("node-1"), "planned", 5_000));
}
