//! A simulated cluster: an API server with versions, a controller of Deployments, an arbitrary
//! scheduler, slow kubelets, and an operator that may see all of it late.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::{Value, json};
use tetris_scaler::load::LoadError;
use tetris_scaler::nodes::NodeGpu;
use tetris_scaler::operator::engines::KnownEngines;
use tetris_scaler::operator::health::troubles;
use tetris_scaler::operator::history::History;
use tetris_scaler::operator::observed::{FunctionInput, Observed};
use tetris_scaler::operator::placing::{Memory, Step, steps};
use tetris_scaler::operator::plan::{Action, Plan, reconcile};
use tetris_scaler::operator::prepare::Preparations;
use tetris_scaler::operator::records::{
    DeploymentRecord, FunctionRecord, Instance, NodeRecord, PodRecord, ProfileRecord,
};
use tetris_scaler::placement::Gate;
use tetris_scaler::resources::RolloutSpec;
use tetris_scaler::state::Key;
use tetris_scaler_core::{LoadPeak, Rate, Resources, Settings};

pub const NAMESPACE: &str = "blue";

/// Objects of the API server.
#[derive(Clone, Default)]
pub struct Objects {
    pub functions: BTreeMap<Key, Arc<FunctionRecord>>,
    pub profiles: BTreeMap<Key, Arc<ProfileRecord>>,
    pub deployments: BTreeMap<Key, Arc<DeploymentRecord>>,
    pub pods: BTreeMap<Key, Arc<PodRecord>>,
    pub nodes: BTreeMap<Key, Arc<NodeRecord>>,
    /// GPUs by node, as the daemons tell them.
    pub gpus: BTreeMap<String, Arc<[NodeGpu]>>,
}

/// The cluster and the operator.
pub struct World {
    pub now: Objects,
    /// Contents of the operator's caches.
    pub seen: Objects,
    pub loads: BTreeMap<Key, u64>,
    pub load_unknown: bool,
    /// Functions with a request that waits or is served.
    pub demanded: BTreeSet<Key>,
    /// Latency in service, in microseconds.
    pub latency: Option<Result<u64, LoadError>>,
    /// The operator's history.
    pub history: History,
    consolidate_after_ms: Option<u64>,
    pub time_ms: u64,
    /// The memory of placing.
    pub memory: Memory,
    /// Number of pods ever created.
    pub started: u64,
    pub refused: u64,
    peaks: BTreeMap<Key, LoadPeak>,
    preparations: Preparations,
    version: u64,
}

impl World {
    pub fn new(functions: &[Value], profiles: &[Value], nodes: usize) -> Self {
        let mut now = Objects::default();
        for function in functions {
            let record = FunctionRecord::read(object(function));
            now.functions.insert(record.key.clone(), Arc::new(record));
        }
        for profile in profiles {
            let record = ProfileRecord::read(&object(profile));
            now.profiles.insert(record.key.clone(), Arc::new(record));
        }
        for number in 0..nodes {
            let name = format!("node-{number}");
            let record = NodeRecord {
                hostname: name.clone(),
                labels: BTreeMap::new(),
                allocatable: Resources {
                    cpu_millis: 16_000,
                    memory_bytes: 64 << 30,
                },
                accepts_new: true,
                gpus_only: false,
                is_lost: false,
                name: name.clone(),
            };
            now.nodes.insert(Key::new("", name), Arc::new(record));
        }
        Self {
            seen: now.clone(),
            now,
            loads: BTreeMap::new(),
            load_unknown: false,
            demanded: BTreeSet::new(),
            latency: None,
            history: History::new(None),
            consolidate_after_ms: None,
            time_ms: 1_700_000_000_000,
            memory: Memory::default(),
            started: 0,
            refused: 0,
            peaks: BTreeMap::new(),
            preparations: Preparations::default(),
            version: 1,
        }
    }

    /// Restarts the operator: it forgets everything, and lists all objects again.
    pub fn restart(&mut self) {
        self.peaks.clear();
        self.preparations = Preparations::default();
        self.memory = Memory::default();
        self.history = History::new(self.consolidate_after_ms);
        self.see();
    }

    /// Lets functions that are steady for `ms` milliseconds replace instances.
    pub fn consolidate_after(&mut self, ms: u64) {
        self.consolidate_after_ms = Some(ms);
        self.history = History::new(self.consolidate_after_ms);
    }

    /// Delivers all events.
    pub fn see(&mut self) {
        self.seen = self.now.clone();
    }

    pub fn plan(&mut self) -> Plan {
        reconcile(&self.observed(), &Settings::default(), self.time_ms)
    }

    pub fn observed(&mut self) -> Observed {
        let seen = self.seen.clone();
        let (pods, nodes) = (Arc::new(seen.pods.clone()), Arc::new(seen.nodes.clone()));
        let now_s = i64::try_from(self.time_ms / 1_000).unwrap();
        let troubles = troubles(&pods, &nodes, now_s, 300);
        let mut inputs = Vec::new();
        for record in seen.functions.values() {
            let window_ms = record
                .function
                .as_ref()
                .map_or(60_000, |entry| entry.window_ms);
            let peak = self.peaks.entry(record.key.clone());
            let peak = peak.or_insert_with(|| LoadPeak::try_new(window_ms).unwrap());
            let load = self.loads.get(&record.key).copied().unwrap_or(0);
            let load = Rate::from_milli_rps(load);
            if !self.load_unknown {
                peak.measured(self.time_ms, load).unwrap();
            }
            inputs.push(FunctionInput {
                profiling: None,
                record: Arc::clone(record),
                prepared: self
                    .preparations
                    .get(record, &seen.profiles, &KnownEngines::default()),
                load: if self.load_unknown {
                    Err(LoadError::Empty)
                } else {
                    Ok(load)
                },
                pod_loads: Arc::default(),
                peak: peak.at(self.time_ms),
                is_demanded: self.demanded.contains(&record.key),
                consolidate: self.history.may_consolidate(&record.key, self.time_ms),
                give_up_retiring: self.history.gives_up(&record.key, self.time_ms),
                refresh_status: false,
                latency: self.latency.clone(),
                failing: self.history.failing(
                    &record.key,
                    troubles.get(&record.key).cloned().unwrap_or_default(),
                    self.time_ms,
                ),
            });
        }
        Observed {
            functions: inputs,
            deployments: Arc::new(seen.deployments),
            pods: Arc::new(seen.pods),
            nodes: Arc::new(seen.nodes),
            gpus: seen.gpus,
            ..Observed::default()
        }
    }

    /// Makes one pass. A write from an old view is refused, and ends the actions of its function.
    pub fn pass(&mut self) -> Plan {
        let plan = self.plan();
        self.history.planned(&plan.functions, self.time_ms);
        for function in &plan.functions {
            for action in &function.actions {
                if !self.act(&function.record.key, action) {
                    self.refused += 1;
                    break;
                }
            }
        }
        plan
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn act(&mut self, function: &Key, action: &Action) -> bool {
        match action {
            Action::Mark {
                pod,
                retiring,
                cost,
            } => {
                if let Some(record) = self.now.pods.get_mut(pod) {
                    let instance = Arc::make_mut(record).instance.as_mut().unwrap();
                    instance.is_retiring = retiring.unwrap_or(instance.is_retiring);
                    instance.cost = cost.unwrap_or(instance.cost);
                }
                true
            }
            Action::Apply {
                key,
                is_present,
                object,
            } => self.apply(key, *is_present, object),
            Action::Scale {
                key,
                version,
                replicas,
            } => self.write(key, version, |entry| {
                entry.replicas = *replicas;
                entry.is_observed = false;
            }),
            Action::Delete { key, uid, version } => {
                let present = self.now.deployments.get(key);
                let same = present.is_some_and(|deployment| {
                    deployment.uid == *uid && deployment.version == *version
                });
                if same {
                    self.now.deployments.remove(key);
                }
                same
            }
            Action::Status(status) => {
                if let Some(record) = self.now.functions.get_mut(function) {
                    Arc::make_mut(record).status = (**status).clone();
                }
                true
            }
            _ => true,
        }
    }

    fn write(&mut self, key: &Key, version: &str, write: impl Fn(&mut DeploymentRecord)) -> bool {
        let next = self.next_version();
        let Some(record) = self.now.deployments.get_mut(key) else {
            return false;
        };
        if record.version != version {
            return false;
        }
        let record = Arc::make_mut(record);
        write(record);
        record.version = next;
        true
    }

    fn apply(&mut self, key: &Key, is_present: bool, object: &Value) -> bool {
        let text = |path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let replicas = object["spec"]["replicas"].as_u64().unwrap() as u32;
        let preferred = text("/metadata/annotations/tetris.dev~1preferred-nodes");
        let preferred: BTreeMap<String, u32> = serde_json::from_str(preferred).unwrap();
        let planned = text("/metadata/annotations/tetris.dev~1planned-nodes");
        let planned: BTreeMap<String, u32> = serde_json::from_str(planned).unwrap();
        let hash = text("/metadata/annotations/tetris.dev~1template-hash").to_owned();
        let rollout = object["spec"]["strategy"]["rollingUpdate"].clone();
        let rollout: RolloutSpec = serde_json::from_value(rollout).unwrap();
        if is_present {
            return self.write(key, text("/metadata/resourceVersion"), |entry| {
                entry.replicas = replicas;
                entry.template_hash = Some(hash.clone());
                entry.preferred = preferred.clone();
                entry.planned = planned.clone();
                entry.rollout = rollout.clone();
                entry.is_observed = false;
            });
        }
        if self.now.deployments.contains_key(key) {
            return false;
        }
        let version = self.next_version();
        let record = DeploymentRecord {
            key: key.clone(),
            uid: format!("uid-{version}"),
            version,
            function: text("/metadata/labels/tetris.dev~1function").to_owned(),
            owner: Some(text("/metadata/ownerReferences/0/uid").to_owned()),
            configuration: text("/metadata/labels/tetris.dev~1configuration").to_owned(),
            replicas,
            template_hash: Some(hash),
            preferred,
            planned,
            rollout,
            ..DeploymentRecord::default()
        };
        self.now.deployments.insert(key.clone(), Arc::new(record));
        true
    }

    /// Lets the controller create or delete one pod of each Deployment, and report.
    pub fn control(&mut self) {
        let keys: Vec<Key> = self.now.deployments.keys().cloned().collect();
        for key in keys {
            let record = Arc::clone(&self.now.deployments[&key]);
            let pods = self.pods_of(&record);
            if pods.len() < record.replicas as usize {
                self.make_pod(&record);
            } else if pods.len() > record.replicas as usize {
                let first = pods.iter().min_by_key(|pod| {
                    let instance = pod.instance.as_ref().unwrap();
                    let age = std::cmp::Reverse(instance.created_s);
                    (
                        !pod.node.is_empty(),
                        instance.is_ready,
                        instance.cost,
                        age,
                        pod.key.clone(),
                    )
                });
                let key = first.unwrap().key.clone();
                let pod = Arc::make_mut(self.now.pods.get_mut(&key).unwrap());
                pod.instance.as_mut().unwrap().is_leaving = true;
            }
            self.report(&key);
        }
    }

    fn report(&mut self, key: &Key) {
        let pods = self.pods_of(&self.now.deployments[key]);
        let ready = pods
            .iter()
            .filter(|pod| pod.instance.as_ref().unwrap().is_ready);
        let (all, ready) = (pods.len() as u32, ready.count() as u32);
        let next = self.next_version();
        let record = Arc::make_mut(self.now.deployments.get_mut(key).unwrap());
        if (record.pods, record.ready, record.is_observed) != (all, ready, true) {
            (record.pods, record.ready, record.is_observed) = (all, ready, true);
            record.version = next;
        }
    }

    fn pods_of(&self, deployment: &DeploymentRecord) -> Vec<Arc<PodRecord>> {
        let of = |pod: &&Arc<PodRecord>| {
            pod.instance.as_ref().is_some_and(|instance| {
                instance.function == deployment.function
                    && instance.configuration == deployment.configuration
                    && !instance.is_leaving
            })
        };
        self.now.pods.values().filter(of).cloned().collect()
    }

    fn make_pod(&mut self, deployment: &DeploymentRecord) {
        self.started += 1;
        let key = Key::new(
            NAMESPACE,
            format!("{}-{:05}", deployment.key.name, self.started),
        );
        let instance = Instance {
            function: deployment.function.clone(),
            configuration: deployment.configuration.clone(),
            created_s: i64::try_from(self.started).unwrap(),
            uid: format!("uid-{}", self.started),
            gate: Some(gate(self.started)),
            ..Instance::default()
        };
        let pod = PodRecord {
            key: key.clone(),
            instance: Some(instance),
            daemon: None::<IpAddr>,
            ..PodRecord::default()
        };
        self.now.pods.insert(key, Arc::new(pod));
    }

    /// Looks at the waiting pods once, and writes.
    pub fn place(&mut self) -> Vec<Step> {
        let (observed, now) = (self.observed(), self.time_ms);
        let steps = steps(&observed, &mut self.memory, &Settings::default(), now);
        for step in &steps {
            match step {
                Step::Open {
                    pod,
                    gate,
                    node,
                    gpu,
                    ..
                } => {
                    let Some(record) = self.now.pods.get_mut(pod) else {
                        continue;
                    };
                    let instance = Arc::make_mut(record).instance.as_mut().unwrap();
                    if instance.gate.as_ref() == Some(gate) {
                        instance.gate = None;
                        instance.assigned.clone_from(node);
                        instance.gpu.clone_from(gpu);
                        let (node, gpu) = (node.clone(), gpu.clone());
                        self.memory.note_opened(&gate.uid, node, gpu, now);
                    }
                }
                Step::Replace { pod, uid, .. } => {
                    let record = self.now.pods.get(pod);
                    if record.is_some_and(|pod| pod.instance.as_ref().unwrap().uid == *uid) {
                        self.now.pods.remove(pod);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        steps
    }

    /// Schedules open pods without a node: to their own, or arbitrarily by `choice`.
    pub fn schedule(&mut self, choice: usize) {
        let nodes: Vec<String> = self
            .now
            .nodes
            .values()
            .map(|node| node.name.clone())
            .collect();
        for (number, pod) in self.now.pods.values_mut().enumerate() {
            let instance = pod.instance.as_ref().unwrap();
            if !pod.node.is_empty() || instance.gate.is_some() {
                continue;
            }
            let node = match instance.assigned.clone() {
                None => nodes[(number + choice) % nodes.len()].clone(),
                Some(node) if nodes.contains(&node) => node,
                Some(_) => continue,
            };
            let pod = Arc::make_mut(pod);
            pod.node = node;
            pod.instance.as_mut().unwrap().assigned = None;
        }
    }

    /// Makes scheduled pods ready, and removes pods that leave.
    pub fn kubelets(&mut self) {
        self.now
            .pods
            .retain(|_, pod| !pod.instance.as_ref().unwrap().is_leaving);
        for pod in self
            .now
            .pods
            .values_mut()
            .filter(|pod| !pod.node.is_empty())
        {
            Arc::make_mut(pod).instance.as_mut().unwrap().is_ready = true;
        }
    }

    /// Lets all components act for a number of rounds, while time passes.
    pub fn settle(&mut self, rounds: usize) {
        for round in 0..rounds {
            self.time_ms += 5_000;
            self.see();
            self.pass();
            self.control();
            self.see();
            self.place();
            self.schedule(round);
            self.kubelets();
        }
        self.see();
    }

    pub fn replicas(&self) -> BTreeMap<String, u32> {
        let all = self.now.deployments.values();
        all.map(|deployment| (deployment.key.name.clone(), deployment.replicas))
            .collect()
    }
}

pub fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

/// Returns a profile of three configurations, with 20, 100 and 40 requests per second.
pub fn profile(name: &str) -> Value {
    let configuration = |cpu: u64, batch: u64, concurrency: u64, own_mib: u64, ms: u64| {
        let us = ms * 1_000;
        json!({
            "cpuMillis": cpu, "batch": batch, "concurrency": concurrency, "ownBytes": own_mib << 20,
            "latencyMicros": {"p50": us, "p90": us, "p95": us, "p99": us},
        })
    };
    json!({
        "apiVersion": "tetris.dev/v1alpha1",
        "kind": "ModelProfile",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "generation": 1},
        "spec": {
            "model": name,
            "configurations": [
                configuration(1_000, 1, 1, 100, 50), configuration(4_000, 4, 2, 500, 80), configuration(2_000, 1, 2, 250, 50),
            ],
            "objects": [{"id": "ab".repeat(32), "bytes": 400 << 20}],
        },
    })
}

pub fn function(name: &str, profile: &str) -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1",
        "kind": "InferenceFunction",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "generation": 1},
        "spec": {
            "profile": profile,
            "slo": {"latencyMillis": 200},
            "template": {"spec": {"containers": [{"name": "main", "image": "server"}]}},
            "load": {"prometheus": {"query": "sum(rate(requests[1m]))"}},
            "scaleIn": {"windowSeconds": 60},
        },
    })
}

/// Returns the closed gate of the pod with this number.
fn gate(number: u64) -> Gate {
    let pod = json!({
        "metadata": {"uid": format!("uid-{number}"), "resourceVersion": "1"},
        "spec": {"containers": [], "schedulingGates": [{"name": "tetris.dev/placement"}]},
    });
    Gate::read(&serde_json::from_value(pod).unwrap()).unwrap()
}
