//! Nodes without a kubelet, for the real scheduler: their status and leases are kept, and their pods run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tetris_deploy_tests::objects::{list, text};

use super::client::Api;

/// Namespace of the nodes' leases.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// Interval of leases: the controller gives a node 40 s.
const BEAT: Duration = Duration::from_secs(12);
/// Interval between two looks at the pods.
const LOOK: Duration = Duration::from_millis(250);

/// Times of a pod, as the looks saw them.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// First look.
    pub since: Instant,
    /// First look with an open gate.
    pub open: Option<Instant>,
}

/// State of the simulation.
#[derive(Default)]
pub struct State {
    nodes: Vec<String>,
    /// Uids of all pods so far.
    known: BTreeSet<String>,
    /// Of new pods, by uid.
    pub times: BTreeMap<String, Times>,
}

/// Simulated nodes, which are removed with this value.
pub struct Nodes {
    api: Arc<Api>,
    pods: String,
    state: Arc<Mutex<State>>,
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Nodes {
    /// Simulates kubelets for the pods of a namespace, on nodes that are added.
    pub fn new(api: Arc<Api>, namespace: &str) -> Self {
        let mut nodes = Self {
            pods: format!("/api/v1/namespaces/{namespace}/pods"),
            state: Arc::default(),
            stopping: Arc::default(),
            threads: Vec::new(),
            api,
        };
        let (api, pods) = (Arc::clone(&nodes.api), nodes.pods.clone());
        let (state, stopping) = (Arc::clone(&nodes.state), Arc::clone(&nodes.stopping));
        nodes.threads.push(std::thread::spawn(move || {
            let mut beaten = Instant::now();
            while !stopping.load(Ordering::Relaxed) {
                // The next look meets what this one could not do.
                let _failed = look(&api, &pods, &state);
                if beaten.elapsed() >= BEAT {
                    beaten = Instant::now();
                    for name in state
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .nodes
                        .clone()
                    {
                        let _failed = beat(&api, &name);
                    }
                }
                std::thread::sleep(LOOK);
            }
        }));
        let (api, pods) = (Arc::clone(&nodes.api), nodes.pods.clone());
        let (state, stopping) = (Arc::clone(&nodes.state), Arc::clone(&nodes.stopping));
        // By itself: many pods to start would delay the looks.
        nodes.threads.push(std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                let _failed = note_all(&api, &pods, &state);
                std::thread::sleep(LOOK);
            }
        }));
        nodes
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a node.
    pub fn add(&self, name: &str, cpus: u64) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        });
        self.api.create("/api/v1/nodes", &node)?;
        self.state().nodes.push(name.to_owned());
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()?},
        });
        // The one of a node of that name goes with it, later.
        if self.api.create(LEASES, &lease).is_err() {
            beat(&self.api, name)?;
        }
        self.offer(name, cpus, 110)
    }

    /// Sets the resources of a node.
    pub fn offer(&self, name: &str, cpus: u64, pods: u64) -> Result<()> {
        let room = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": pods.to_string()});
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Simulated", "message": "no kubelet",
            "lastHeartbeatTime": seconds()?, "lastTransitionTime": seconds()?,
        });
        let status =
            json!({"status": {"capacity": room, "allocatable": room, "conditions": [ready]}});
        self.api
            .merge(&format!("/api/v1/nodes/{name}/status"), &status)?;
        Ok(())
    }

    /// Fails while the node controller has not taken the taints of a new node away.
    pub fn require_untainted(&self) -> Result<()> {
        let nodes = self.api.get("/api/v1/nodes")?;
        let ours = self.state().nodes.clone();
        for node in list(&nodes["items"]) {
            let name = text(&node["metadata"]["name"]);
            let taints = &node["spec"]["taints"];
            ensure!(
                !ours.iter().any(|node| node == name) || list(taints).is_empty(),
                "{name}: {taints}"
            );
        }
        Ok(())
    }

    /// Removes a node and, as the garbage collector does later, its pods.
    pub fn lose(&self, name: &str) -> Result<()> {
        self.state().nodes.retain(|node| node != name);
        self.api.delete(&format!("/api/v1/nodes/{name}"))?;
        let pods = self.api.get(&self.pods)?;
        for pod in list(&pods["items"]) {
            if pod["spec"]["nodeName"] == name {
                let path = format!("{}/{}", self.pods, text(&pod["metadata"]["name"]));
                let _gone_already = self.api.delete(&path);
            }
        }
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
        for name in self.state().nodes.clone() {
            let _gone_already = self.api.delete(&format!("/api/v1/nodes/{name}"));
        }
    }
}

fn beat(api: &Api, name: &str) -> Result<()> {
    let lease = json!({"spec": {"renewTime": now()?}});
    api.merge(&format!("{LEASES}/{name}"), &lease)?;
    Ok(())
}

/// Starts the pods on the nodes, and ends those that leave.
fn look(api: &Api, pods: &str, state: &Mutex<State>) -> Result<()> {
    let listed = api.get(pods)?;
    let nodes = {
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.nodes.clone()
    };
    for pod in list(&listed["items"]) {
        let path = format!("{pods}/{}", text(&pod["metadata"]["name"]));
        let node = text(&pod["spec"]["nodeName"]);
        if !nodes.iter().any(|entry| entry == node) {
            continue;
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let _gone_already = api.delete(&path);
        } else if pod["status"]["phase"] != "Running" {
            let _failed = api.merge(&format!("{path}/status"), &running(pod)?);
        }
    }
    Ok(())
}

/// Notes the gates of all pods.
fn note_all(api: &Api, pods: &str, state: &Mutex<State>) -> Result<()> {
    let listed = api.get(pods)?;
    let at = Instant::now();
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    for pod in list(&listed["items"]) {
        note(pod, at, &mut state);
    }
    Ok(())
}

fn note(pod: &Value, at: Instant, state: &mut State) {
    let uid = text(&pod["metadata"]["uid"]).to_owned();
    if state.known.insert(uid.clone()) {
        let (since, open) = (at, None);
        state.times.insert(uid.clone(), Times { since, open });
    }
    let Some(times) = state.times.get_mut(&uid) else {
        return;
    };
    if list(&pod["spec"]["schedulingGates"]).is_empty() {
        times.open.get_or_insert(at);
    }
}

fn running(pod: &Value) -> Result<Value> {
    let now = seconds()?;
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let conditions: Vec<_> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .into_iter()
        .map(condition)
        .collect();
    let containers = list(&pod["spec"]["containers"]).iter().map(|container| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": true,
            "restartCount": 0, "started": true, "state": {"running": {"startedAt": now}},
        })
    });
    let containers: Vec<_> = containers.collect();
    Ok(json!({"status": {
        "phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": containers,
    }}))
}

/// The time as leases have it.
fn now() -> Result<String> {
    formatted("+%Y-%m-%dT%H:%M:%S.%6NZ")
}

/// The time as conditions have it.
fn seconds() -> Result<String> {
    formatted("+%Y-%m-%dT%H:%M:%SZ")
}

fn formatted(format: &str) -> Result<String> {
    let output = Command::new("date").args(["-u", format]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
