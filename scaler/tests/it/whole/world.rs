//! The operator's environment.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::whole::api::{Api, Asked, State, id};
use crate::whole::documents::{CONFIGURATION, function, node, profile};
use crate::whole::kubernetes::{is_ready, replicas, step};
use crate::whole::loads::Loads;

/// Timeout for all waits of these tests.
pub const DEADLINE: Duration = Duration::from_mins(2);
/// Interval between two steps of the cluster.
const STEP: Duration = Duration::from_millis(50);

pub struct World {
    pub api: Api,
    pub server: SocketAddr,
    pub loads: Loads,
    pub prometheus: SocketAddr,
    pub dir: TempDir,
}

impl World {
    /// Creates three nodes and a profile.
    pub async fn new() -> Self {
        let (api, server) = Api::start().await;
        let (loads, prometheus) = Loads::start().await;
        api.with(|state| {
            for name in ["node-0", "node-1", "node-2"] {
                state.objects.create(&id("nodes", "", name), node(name));
            }
            let key = id("modelprofiles", "blue", "m");
            state.objects.create(&key, profile());
            // It comes with the manifests.
            let lease = id("leases", "tetris-system", "tetris-scaler");
            state.objects.create(&lease, serde_json::json!({}));
        });
        let cluster = api.clone();
        tokio::spawn(async move {
            loop {
                cluster.with(|state| step(&mut state.objects, state.holds_pods));
                tokio::time::sleep(STEP).await;
            }
        });
        Self {
            api,
            server,
            loads,
            prometheus,
            dir: TempDir::new().unwrap(),
        }
    }

    /// Creates a function with a load.
    pub fn function(&self, name: &str, load: f64) {
        self.loads.set(name, load);
        self.create(name, function(name));
    }

    pub fn create(&self, name: &str, function: Value) {
        let key = id("inferencefunctions", "blue", name);
        self.api.with(|state| {
            state.objects.create(&key, function);
        });
    }

    pub fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let key = id("inferencefunctions", "blue", name);
        self.api.with(|state| state.objects.change(&key, change));
    }

    pub fn delete(&self, name: &str) {
        let key = id("inferencefunctions", "blue", name);
        self.api.with(|state| {
            state.objects.remove(&key);
        });
    }

    /// Waits until the cluster is as `expected`.
    pub async fn until(&self, what: &str, mut expected: impl FnMut(&State) -> bool) {
        until(what, || self.api.with(|state| expected(state))).await;
    }

    /// Waits until a function has exactly `count` instances, all of them ready.
    pub async fn until_ready(&self, function: &str, count: usize) {
        let what = format!("{function} has {count} ready instances");
        self.until(&what, |state| {
            let pods = instances(state, function);
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            asked_for(state, function) == Some(count as u64)
                && (pods.len(), ready) == (count, count)
        })
        .await;
    }

    /// Waits until a function's condition has `status` and `reason`.
    pub async fn until_says(
        &self,
        function: &str,
        what: &str,
        status: &str,
        reason: &str,
    ) -> Value {
        let mut last = Value::Null;
        let waits = format!("{function} says {what} {status} {reason}");
        self.until(&waits, |state| {
            last = condition(state, function, what);
            last["status"] == status && last["reason"] == reason
        })
        .await;
        last
    }

    /// Returns all writes to the resource.
    pub fn writes(&self, resource: &str) -> Vec<Asked> {
        self.api.with(|state| {
            let all = state.writes("").into_iter();
            all.filter(|write| write.resource == resource)
                .cloned()
                .collect()
        })
    }

    /// Number of function pods ever created.
    pub fn started(&self) -> usize {
        self.api.with(|state| {
            let all = state.objects.history.iter();
            all.filter(|event| {
                event.what == "ADDED" && event.id.0 == "pods" && event.id.1 == "blue"
            })
            .count()
        })
    }
}

impl Drop for World {
    #[expect(
        clippy::print_stdout,
        reason = "a test has failed, and this may say why"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.api.with(|state| {
                for entry in state.asked.iter().rev().take(20).rev() {
                    println!(
                        "{} {} {} {} {}",
                        entry.code, entry.by, entry.verb, entry.resource, entry.name
                    );
                }
                for (id, function) in state.objects.of("inferencefunctions") {
                    println!("{id:?} {}", function["status"]);
                }
            });
            return;
        }
        let denied = self.api.with(|state| {
            let denied = state.asked.iter().filter(|entry| entry.code == 403);
            denied.cloned().collect::<Vec<Asked>>()
        });
        assert!(denied.is_empty(), "the manifests do not let it: {denied:?}");
    }
}

/// Polls until `expected` returns true.
pub async fn until(what: &str, mut expected: impl FnMut() -> bool) {
    let began = Instant::now();
    while !expected() {
        assert!(began.elapsed() < DEADLINE, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the pods of a function.
pub fn instances(state: &State, function: &str) -> Vec<Value> {
    let pods = state.objects.of("pods").into_iter();
    pods.filter(|(_, pod)| pod["metadata"]["labels"]["tetris.dev/function"] == function)
        .map(|(_, pod)| pod)
        .collect()
}

/// Returns the Deployment of a function.
pub fn deployment(state: &State, function: &str) -> Option<Value> {
    let name = format!("{function}-{CONFIGURATION}");
    state
        .objects
        .get(&id("deployments", "blue", &name))
        .cloned()
}

/// Returns the number of instances that its Deployment requests.
pub fn asked_for(state: &State, function: &str) -> Option<u64> {
    deployment(state, function).as_ref().map(replicas)
}

/// Returns a condition of a function.
pub fn condition(state: &State, function: &str, what: &str) -> Value {
    let object = state
        .objects
        .get(&id("inferencefunctions", "blue", function));
    let conditions = object.and_then(|entry| entry["status"]["conditions"].as_array());
    let mut conditions = conditions.into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == what);
    condition.cloned().unwrap_or_default()
}
