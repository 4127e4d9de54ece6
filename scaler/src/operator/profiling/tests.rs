//! The measurement of functions, step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tetris_scaler_core::Resources;
use tetris_scaler_profiler::cli::RunState;

use super::decide::{Action, Decision, Facts, decide};
use super::records::{JobRecord, RunPod};
use crate::labels;
use crate::operator::engines::ServedModel;
use crate::operator::records::{FunctionRecord, NodeRecord, ProfileRecord};
use crate::resources::{ModelDescription, PodSource};
use crate::state::Key;

/// A cluster with functions to measure, as the API server has it.
struct World {
    functions: BTreeMap<String, Value>,
    statuses: BTreeMap<String, Value>,
    profiles: BTreeMap<Key, Value>,
    jobs: BTreeMap<Key, Value>,
    pods: BTreeMap<Key, Value>,
    answers: BTreeMap<Key, RunState>,
    nodes: BTreeMap<Key, Arc<NodeRecord>>,
    model: Option<ServedModel>,
    has_installer: bool,
    other_protocol: Option<&'static str>,
    now: Timestamp,
}

fn key(name: &str) -> Key {
    Key::new("blue", name)
}

fn function() -> Value {
    json!({
        "slo": {"latencyMillis": 200},
        "load": {"gateway": {}},
        "template": {
            "metadata": {"labels": {"app": "server"}},
            "spec": {
                "initContainers": [
                    {"name": "first", "image": "first:1"},
                    {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
                ],
                "containers": [
                    {
                        "name": "server", "image": "server:1", "command": ["serve"], "args": ["--fast"],
                        "env": [{"name": "MODE", "value": "x"}, {"name": "TETRIS_PORT", "value": "8000"}],
                        "ports": [{"containerPort": 8000}],
                        "readinessProbe": {"httpGet": {"path": "/", "port": 8000}},
                        "resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}},
                    },
                    {"name": "logs", "image": "logs:1"},
                ],
            },
        },
    })
}

fn measured_at(at: &str) -> RunState {
    let state = json!({"state": "measured", "failures": 0, "profile": {
        "model": "f",
        "configurations": [{
            "cpuMillis": 1000, "batch": 2, "concurrency": 1, "ownBytes": 1000,
            "latencyMicros": {"p50": 1, "p90": 2, "p95": 3, "p99": 4}, "rateMillis": 9000,
        }],
        "measured": {
            "at": at, "machine": "m", "cpus": 8, "memoryBytes": 9, "command": ["serve"], "requests": 50,
        },
    }});
    serde_json::from_value(state).unwrap()
}

fn measured() -> RunState {
    measured_at("1970-01-01T00:00:00Z")
}

impl World {
    fn new() -> Self {
        let node = |name: &str, machine: &str| {
            let node = NodeRecord {
                name: name.to_owned(),
                labels: [(labels::MACHINE.to_owned(), machine.to_owned())].into(),
                allocatable: Resources {
                    cpu_millis: 5_900,
                    memory_bytes: 1 << 34,
                },
                accepts_new: true,
                ..NodeRecord::default()
            };
            (Key::new("", name), Arc::new(node))
        };
        Self {
            functions: [("f".to_owned(), function())].into(),
            statuses: BTreeMap::new(),
            profiles: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            answers: BTreeMap::new(),
            nodes: [node("a", "small"), node("b", "large"), node("c", "large")].into(),
            model: None,
            has_installer: true,
            other_protocol: None,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn record(&self, name: &str) -> FunctionRecord {
        let object = json!({
            "apiVersion": "tetris.dev/v1alpha1",
            "kind": "InferenceFunction",
            "metadata": {"name": name, "namespace": "blue", "uid": format!("uid-{name}"), "generation": 1},
            "spec": self.functions[name],
            "status": self.statuses.get(name),
        });
        FunctionRecord::read(serde_json::from_value::<DynamicObject>(object).unwrap())
    }

    fn due(&self, name: &str) -> Decision {
        let record = self.record(name);
        let function = record.function.as_ref().unwrap();
        let PodSource::Template(template) = &function.pods else {
            panic!("the function has a template");
        };
        let profiles = self.profiles.iter().map(|(key, profile)| {
            let object = serde_json::from_value::<DynamicObject>(profile.clone()).unwrap();
            (key.clone(), Arc::new(ProfileRecord::read(&object)))
        });
        let jobs = self.jobs.iter().map(|(key, job)| {
            let job = serde_json::from_value::<Job>(job.clone()).unwrap();
            (key.clone(), Arc::new(JobRecord::read(&job).unwrap()))
        });
        let pods = self.pods.iter().map(|(key, pod)| {
            let pod = serde_json::from_value::<Pod>(pod.clone()).unwrap();
            (key.clone(), Arc::new(RunPod::read(&pod).unwrap()))
        });
        let installer = json!({"spec": {"containers": [{"name": "tetris-profiler", "image": "tetris-scaler"}]}});
        decide(&Facts {
            record: &record,
            function,
            profiling: function.profiling.as_ref().unwrap(),
            template: Ok(Arc::clone(template)),
            other_protocol: self.other_protocol,
            model: self.model.as_ref(),
            installer: self.has_installer.then_some(&installer),
            profiles: &profiles.collect(),
            jobs: &jobs.collect(),
            pods: &pods.collect(),
            answers: &self.answers,
            nodes: &self.nodes,
            now: self.now,
        })
    }

    /// Carries out what is due, as the API server and the controller of Jobs do. Returns the reason of the state.
    fn step(&mut self, name: &str) -> &'static str {
        let decision = self.due(name);
        for action in decision.actions {
            match action {
                Action::WriteProfile { key, object } => drop(self.profiles.insert(key, object)),
                Action::CreateJob { key, mut object } => {
                    assert!(!self.jobs.contains_key(&key), "{key}");
                    object["metadata"]["uid"] = format!("uid-{key}").into();
                    object["metadata"]["resourceVersion"] = "1".into();
                    let pod = json!({
                        "metadata": {
                            "name": format!("{}-x", key.name), "namespace": "blue",
                            "labels": object["spec"]["template"]["metadata"]["labels"],
                            "ownerReferences": [{
                                "apiVersion": "batch/v1", "kind": "Job", "name": key.name,
                                "uid": format!("uid-{key}"), "controller": true,
                            }],
                        },
                        "spec": object["spec"]["template"]["spec"],
                        "status": {"phase": "Running", "podIP": "10.0.0.7"},
                    });
                    let pod_key = Key::new("blue", format!("{}-x", key.name));
                    self.pods.insert(pod_key, pod);
                    self.jobs.insert(key, object);
                }
                Action::DeleteJob { key, .. } => {
                    self.jobs.remove(&key).unwrap();
                    self.pods.retain(|pod, _| !pod.name.starts_with(&key.name));
                    self.answers
                        .retain(|pod, _| !pod.name.starts_with(&key.name));
                }
            }
        }
        decision.state.reason
    }

    fn answer(&mut self, state: &RunState) {
        for pod in self.pods.keys() {
            self.answers.insert(pod.clone(), state.clone());
        }
    }

    fn job(&self) -> &Value {
        assert_eq!(self.jobs.len(), 1);
        self.jobs.values().next().unwrap()
    }

    fn configurations(&self, name: &str) -> &Value {
        &self.profiles[&key(name)]["spec"]["configurations"]
    }
}

#[test]
fn a_function_is_served_as_assumed_until_it_is_measured() {
    let mut world = World::new();
    assert_eq!(world.step("f"), "Starting");
    let assumed = &world.configurations("f")[0];
    assert_eq!(assumed["cpuMillis"], 1500);
    assert_eq!(assumed["ownBytes"], 3_u64 << 30);
    assert_eq!(assumed["latencyMicros"]["p99"], 100_000);
    assert_eq!(
        world.profiles[&key("f")]["metadata"]["labels"][labels::ASSUMED],
        "true"
    );
    // The pod starts, measures, and ends.
    assert_eq!(world.step("f"), "Starting");
    let measuring = json!({"state": "measuring", "done": 3, "of": 16, "step": "c1000-b2-p1"});
    world.answer(&serde_json::from_value(measuring).unwrap());
    let measuring = world.due("f");
    assert_eq!(measuring.state.reason, "Measuring");
    assert!(measuring.state.message.contains("3 of 16"));
    assert!(measuring.actions.is_empty());
    world.answer(&measured());
    assert_eq!(world.step("f"), "Measured");
    assert!(world.jobs.is_empty());
    assert_eq!(world.configurations("f")[0]["batch"], 2);
    let labels = &world.profiles[&key("f")]["metadata"]["labels"];
    assert!(labels.get(labels::ASSUMED).is_none());
    // And nothing is due any more.
    let settled = world.due("f");
    assert_eq!((settled.state.status, settled.actions.len()), ("True", 0));
}

#[test]
fn the_job_runs_the_profiler_beside_the_container_and_nothing_else() {
    let mut world = World::new();
    world.step("f");
    let job = world.job();
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 1_200);
    let pod = &job["spec"]["template"];
    assert!(pod["metadata"]["labels"].get("app").is_none());
    let spec = &pod["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["nodeSelector"][labels::MACHINE], "large");
    let names = |list: &Value| -> Vec<String> {
        let containers = list.as_array().unwrap().iter();
        let names = containers.map(|container| container["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    assert_eq!(names(&spec["containers"]), ["server"]);
    assert_eq!(names(&spec["initContainers"]), ["tetris-profiler", "first"]);
    let server = &spec["containers"][0];
    assert_eq!(
        server["command"],
        json!(["/run/tetris-profiler/tetris-scaler"])
    );
    let arguments: Vec<&str> = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    assert_eq!(arguments[arguments.len() - 3..], ["--", "serve", "--fast"]);
    // Half of the 5.9 CPUs of the largest node.
    for expected in [
        "--cpus=1,2",
        "--slo-millis=200",
        "--slo-percentile=95",
        "--budget-seconds=600",
        "--model=f",
    ] {
        assert!(arguments.contains(&expected), "{arguments:?}");
    }
    assert_eq!(
        server["resources"]["requests"],
        json!({"cpu": "2", "memory": (6_u64 << 30).to_string()})
    );
    assert_eq!(server["resources"]["limits"]["cpu"], "3");
    assert_eq!(server["env"], json!([{"name": "MODE", "value": "x"}]));
    assert!(server.get("ports").is_none() && server.get("readinessProbe").is_none());
}

#[test]
fn servers_that_batch_by_themselves_are_measured_by_completions() {
    let mut world = World::new();
    world.other_protocol = Some("openai");
    world.step("f");
    let container = &world.job()["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    for expected in ["--protocol=openai", "--batch=1", "--concurrency=1,2,4,8"] {
        assert!(arguments.contains(&expected.into()), "{arguments:?}");
    }
}

#[test]
fn what_was_measured_for_equal_contents_is_used_again() {
    let mut world = World::new();
    world.step("f");
    world.answer(&measured());
    world.step("f");
    // Another function of the same content, and one of another.
    world.functions.insert("g".to_owned(), function());
    assert_eq!(world.step("g"), "Measured");
    assert!(world.jobs.is_empty());
    assert_eq!(world.configurations("g"), world.configurations("f"));
    assert_eq!(world.due("g").actions, []);
    let mut other = function();
    other["template"]["spec"]["containers"][0]["args"] = json!(["--slow"]);
    world.functions.insert("h".to_owned(), other.clone());
    assert_eq!(world.step("h"), "Starting");
    assert_eq!(world.jobs.len(), 1);
    // A change of a measured function ends in a new measurement; the profile of before holds meanwhile.
    world.jobs.clear();
    world.pods.clear();
    world.functions.insert("f".to_owned(), other);
    assert_eq!(world.step("f"), "Starting");
    assert_eq!(world.configurations("f")[0]["batch"], 2);
}

#[test]
fn a_job_of_an_earlier_content_goes() {
    let mut world = World::new();
    world.step("f");
    let before = world.job()["metadata"]["name"].clone();
    world.functions.get_mut("f").unwrap()["slo"]["latencyMillis"] = 300.into();
    world.step("f");
    assert_ne!(world.job()["metadata"]["name"], before);
}

#[test]
fn a_failed_job_is_said_and_left_until_it_is_gone() {
    let mut world = World::new();
    world.step("f");
    let name = world.jobs.keys().next().unwrap().clone();
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]});
    world.jobs.get_mut(&name).unwrap()["status"] = failed;
    let status = json!({"phase": "Failed", "containerStatuses": [{
        "name": "server", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "error: the first start failed: no such file\n"}},
    }]});
    for pod in world.pods.values_mut() {
        pod["status"] = status.clone();
    }
    let failed = world.due("f");
    assert_eq!(
        (failed.state.status, failed.state.reason),
        ("False", "JobFailed")
    );
    assert!(
        failed.state.message.contains("no such file"),
        "{}",
        failed.state.message
    );
    assert!(failed.actions.is_empty());
    // After its time the API server deletes it.
    world.jobs.clear();
    world.pods.clear();
    assert_eq!(world.step("f"), "Starting");
    assert_eq!(world.jobs.len(), 1);
}

#[test]
fn a_pod_of_no_job_is_not_believed() {
    let mut world = World::new();
    world.step("f");
    world.answer(&measured());
    for pod in world.pods.values_mut() {
        pod["metadata"]["ownerReferences"][0]["uid"] = "another".into();
    }
    let decision = world.due("f");
    assert_eq!(decision.state.reason, "Starting");
    assert!(decision.actions.is_empty());
}

#[test]
fn results_that_are_no_profiles_are_refused() {
    let mut world = World::new();
    world.step("f");
    let RunState::Measured { mut profile, .. } = measured() else {
        panic!("it is measured");
    };
    profile.configurations.clear();
    world.answer(&RunState::Measured {
        profile,
        failures: 0,
    });
    let refused = world.due("f");
    assert_eq!(refused.state.reason, "InvalidResult");
    assert!(refused.actions.is_empty());
}

#[test]
fn profiles_and_jobs_of_others_are_left_alone() {
    let mut world = World::new();
    let users = json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {"name": "f", "namespace": "blue", "uid": "u"},
        "spec": {"model": "f", "configurations": []},
    });
    world.profiles.insert(key("f"), users);
    let decision = world.due("f");
    assert!(decision.actions.is_empty());
    assert!(decision.state.message.contains("spec.profile"));
    world.profiles.clear();
    world.step("f");
    let (name, mut job) = world.jobs.pop_first().unwrap();
    job["metadata"]["ownerReferences"] = json!([]);
    world.jobs.insert(name, job);
    let decision = world.due("f");
    assert_eq!(decision.state.reason, "ForeignJob");
    assert!(decision.actions.is_empty());
}

#[test]
fn a_function_with_a_model_waits_for_it_and_is_measured_beside_it() {
    let mut world = World::new();
    world.functions.get_mut("f").unwrap()["model"] = "m".into();
    world.model = Some(ServedModel::default());
    assert_eq!(world.step("f"), "ModelNotPresent");
    assert!(world.jobs.is_empty());
    world.model = Some(ServedModel {
        nodes: ["a".to_owned()].into(),
        description: Some(ModelDescription {
            content: "c1".to_owned(),
            bytes: 77,
            ..ModelDescription::default()
        }),
        ..ServedModel::default()
    });
    assert_eq!(world.step("f"), "Starting");
    let spec = &world.job()["spec"]["template"]["spec"];
    // The node with the model is of the other type.
    assert_eq!(spec["nodeSelector"][labels::MACHINE], "small");
    let terms = &spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["labelSelector"]["matchLabels"][labels::MODEL], "m");
    let arguments = spec["containers"][0]["args"].as_array().unwrap();
    assert!(arguments.contains(&"--model=m".into()));
    world.answer(&measured());
    world.step("f");
    assert_eq!(world.due("f").actions, []);
    // The model moves to a machine of another type: the measurement holds as long as there are such nodes.
    world.model.as_mut().unwrap().nodes = ["b".to_owned()].into();
    assert_eq!(world.due("f").actions, []);
    // Other files are measured again.
    world
        .model
        .as_mut()
        .unwrap()
        .description
        .as_mut()
        .unwrap()
        .content = "c2".to_owned();
    assert_eq!(world.step("f"), "Starting");
}

#[test]
fn a_function_that_stays_slower_than_its_profile_is_measured_again() {
    let mut world = World::new();
    world.step("f");
    world.answer(&measured());
    world.step("f");
    let slower = |since: &str| {
        json!({"conditions": [{
            "type": "AsProfiled", "status": "False", "reason": "SlowerThanProfiled", "message": "",
            "lastTransitionTime": since,
        }]})
    };
    let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
    // A young profile, and one slower for a moment only.
    world
        .statuses
        .insert("f".to_owned(), slower("1970-01-01T00:30:00Z"));
    world.now = at(60);
    assert_eq!(world.due("f").actions, []);
    world
        .statuses
        .insert("f".to_owned(), slower("1970-01-01T07:55:00Z"));
    world.now = at(480);
    assert_eq!(world.due("f").actions, []);
    world.now = at(486);
    assert_eq!(world.step("f"), "Measured");
    assert_eq!(world.jobs.len(), 1);
    assert!(world.due("f").state.message.contains("measured again"));
    world.answer(&measured_at("1970-01-01T08:10:00Z"));
    world.step("f");
    assert_eq!(world.due("f").actions, []);
    assert!(world.jobs.is_empty());
    let at = &world.profiles[&key("f")]["spec"]["measured"]["at"];
    assert_eq!(at, "1970-01-01T08:10:00Z");
}

#[test]
fn what_cannot_be_measured_says_why_and_keeps_its_assumed_profile() {
    let mut world = World::new();
    world.has_installer = false;
    assert_eq!(world.step("f"), "NoProfiler");
    assert!(world.jobs.is_empty());
    world.has_installer = true;
    let container = &mut world.functions.get_mut("f").unwrap()["template"]["spec"]["containers"][0];
    container.as_object_mut().unwrap().remove("command");
    assert_eq!(world.step("f"), "NoCommand");
    world.other_protocol = Some("grpc");
    assert_eq!(world.step("f"), "NotMeasurable");
    assert!(world.jobs.is_empty());
    assert!(world.profiles.contains_key(&key("f")));
}
